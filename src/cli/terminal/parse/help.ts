import { programVersion } from '../../../home/version.ts';
import { terminalColumns } from '../../../logs/width.ts';
import { wrapHanging } from '../../../logs/word-wrap.ts';
import {
  type CommandSpec,
  commands,
  type FlagSpec,
  groupOf,
  groups,
  shortSummary,
  shownFlags,
} from '../commands.ts';
import { isTerminal, paint } from '../print/output.ts';
import { beside } from '../print/table.ts';

const WIDTH_MAX = 100;
const WHAT = 'answers prompts with models on this machine, or in the cloud where you say so.';

/** Help for everything (an empty name), for a group of commands, or for one. */
export function helpText(name: string): string {
  const spec = commands.find((command) => command.name === name);
  return spec === undefined ? overview(name) : details(spec);
}

function overview(group: string): string {
  const all = group === '';
  return [
    all && `svc ${programVersion()}: ${WHAT}`,
    `${title('Usage')}\n  ${words('svc', group, '<command> [flags]')}`,
    ...(all ? allCommands() : [section('Commands', groupOf(group).map(commandRow))]),
    all && `${title('To begin')}\n  svc run "What is svc?"`,
    `More about a command${all ? ' or a group' : ''}: svc ${words(group, '<name>')} --help`,
  ]
    .filter(Boolean)
    .join('\n\n');
}

/** Daily commands, then the words of the groups, then the rest. */
function allCommands(): string[] {
  const isSingle = ({ name }: CommandSpec) => !name.includes(' ');
  const rest = commands.filter((spec) => isSingle(spec) && !spec.isEveryday);
  const parts = groups().map((name): [string, string] => [
    name,
    groupOf(name)
      .map((spec) => spec.name.slice(name.length + 1))
      .join(', '),
  ]);
  return [
    section('Every day', commands.filter(({ isEveryday }) => isEveryday).map(commandRow)),
    section('Groups', parts),
    section('Other commands', rest.map(commandRow)),
  ];
}

function commandRow({ name, args, summary }: CommandSpec): [string, string] {
  return [words(name, shortArgs(args)), shortSummary(summary)];
}

/** The help of the command has the words of an argument, and the optional ones after the first. */
function shortArgs(args: string | undefined): string | undefined {
  return args?.replace(/\[\w+(\|\w+)+\]/, '[name]').replace(/\] \[.*$/, ']');
}

function section(name: string, rows: [string, string][]): string {
  return `${title(name)}\n${columns(rows)}`;
}

function details(spec: CommandSpec): string {
  const rows = shownFlags(spec).map((flag): [string, string] => [flagForm(flag), flag.summary]);
  const examples = spec.examples.map((example) => `  svc ${example}`).join('\n');
  const { words: others = [], isReversed = false } = spec.alias ?? {};
  const args = isReversed ? spec.args.split(' ').toReversed().join(' ') : spec.args;
  const lines = [
    words('svc', spec.name, spec.args, '[flags]'),
    ...others.map((other) => words('svc', other, args, '[flags]')),
  ];
  return [
    wrapHanging(spec.summary, 0, width()),
    `${title('Usage')}\n${lines.map((line) => `  ${line}`).join('\n')}`,
    `${title('Flags')}\n${columns(rows)}`,
    examples !== '' && `${title('Examples')}\n${examples}`,
  ]
    .filter(Boolean)
    .join('\n\n');
}

function words(...parts: (string | undefined)[]): string {
  return parts.filter(Boolean).join(' ');
}

function flagForm({ name, short, value }: FlagSpec): string {
  const before = short === undefined ? '    ' : `-${short}, `;
  return before + words(`--${name}`, value);
}

/** Names with their texts beside them, for a screen. */
export function columns(rows: readonly (readonly [name: string, text: string])[]): string {
  const left = Math.max(...rows.map(([name]) => name.length)) + 4;
  return beside(
    rows.map(([name, text]) => [`  ${name.padEnd(left - 2)}`, text]),
    left,
    width(),
  );
}

/** A pipe leads to a pager, on a screen of the usual width. Its stream is slow to make. */
function width(): number {
  return Math.min(WIDTH_MAX, terminalColumns(isTerminal(1) ? process.stdout : {}));
}

function title(text: string): string {
  return paint('bold', text);
}
