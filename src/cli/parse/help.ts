import { programVersion } from '../../home/version.ts';
import { type CommandSpec, commands, type FlagSpec, shownFlags } from '../commands.ts';
import { paint } from '../print/output.ts';

const WIDTH_MAX = 100;

/** Help for everything (an empty name), for a group of commands, or for one. */
export function helpText(name: string): string {
  const spec = commands.find((command) => command.name === name);
  return spec === undefined ? overview(name) : details(spec);
}

function overview(group: string): string {
  const shown = commands.filter((command) => group === '' || command.name.startsWith(`${group} `));
  const rows = shown.map((spec): [string, string] => [
    [spec.name, spec.args].filter(Boolean).join(' '),
    firstSentence(spec.summary),
  ]);
  const head =
    group === ''
      ? `svc ${programVersion()}: answers prompts with models on this machine, or in the cloud where you say so.\n\n`
      : '';
  const start = group === '' ? `\n\n${title('To begin')}\n  svc run "What is svc?"` : '';
  return `${head}${title('Usage')}\n  svc ${group === '' ? '' : `${group} `}<command> [flags]\n\n${title('Commands')}\n${columns(rows)}${start}\n\nMore about a command: svc <command> --help`;
}

function details(spec: CommandSpec): string {
  const usage = ['svc', spec.name, spec.args, '[flags]'].filter(Boolean).join(' ');
  const rows = shownFlags(spec).map((flag): [string, string] => [flagForm(flag), flag.summary]);
  const examples = spec.examples.map((example) => `  svc ${example}`).join('\n');
  return `${wrap(spec.summary, width())}\n\n${title('Usage')}\n  ${usage}\n\n${title('Flags')}\n${columns(rows)}${examples === '' ? '' : `\n\n${title('Examples')}\n${examples}`}`;
}

function flagForm({ name, short, value }: FlagSpec): string {
  return `${short === undefined ? '    ' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;
}

function columns(rows: [string, string][]): string {
  const left = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows
    .map(
      ([name, text]) =>
        `  ${name.padEnd(left - 2)}${wrap(text, width() - left).replaceAll('\n', `\n${' '.repeat(left)}`)}`,
    )
    .join('\n');
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
