import { programVersion } from '../../home/version.ts';
import { type CommandSpec, commands, type FlagSpec, shownFlags } from '../commands.ts';
import { paint } from '../print/output.ts';

const WIDTH_MAX = 100;
const WHAT = 'answers prompts with models on this machine, or in the cloud where you say so.';

/** Help for everything (an empty name), for a group of commands, or for one. */
export function helpText(name: string): string {
  const spec = commands.find((command) => command.name === name);
  return spec === undefined ? overview(name) : details(spec);
}

function overview(group: string): string {
  const shown = commands.filter((command) => group === '' || command.name.startsWith(`${group} `));
  const rows = shown.map((spec): [string, string] => [
    words(spec.name, spec.args),
    firstSentence(spec.summary),
  ]);
  const all = group === '';
  return [
    all && `svc ${programVersion()}: ${WHAT}`,
    `${title('Usage')}\n  ${words('svc', group, '<command> [flags]')}`,
    `${title('Commands')}\n${columns(rows)}`,
    all && `${title('To begin')}\n  svc run "What is svc?"`,
    'More about a command: svc <command> --help',
  ]
    .filter(Boolean)
    .join('\n\n');
}

function details(spec: CommandSpec): string {
  const rows = shownFlags(spec).map((flag): [string, string] => [flagForm(flag), flag.summary]);
  const examples = spec.examples.map((example) => `  svc ${example}`).join('\n');
  return [
    wrap(spec.summary, width()),
    `${title('Usage')}\n  ${words('svc', spec.name, spec.args, '[flags]')}`,
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

function columns(rows: [string, string][]): string {
  const left = Math.max(...rows.map(([name]) => name.length)) + 4;
  const next = `\n${' '.repeat(left)}`;
  const beside = (text: string) => wrap(text, width() - left).replaceAll('\n', next);
  return rows.map(([name, text]) => `  ${name.padEnd(left - 2)}${beside(text)}`).join('\n');
}

function wrap(text: string, columns: number): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length + 1 > columns) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

function width(): number {
  return Math.max(40, Math.min(WIDTH_MAX, process.stdout.columns ?? WIDTH_MAX));
}

/** The summary up to its first full stop or colon. */
function firstSentence(text: string): string {
  const [first = text] = text.split(/(?<=[.:;])\s/);
  return first.replace(/[.:;]$/, '');
}

function title(text: string): string {
  return paint('bold', text);
}
