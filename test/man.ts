import { commands, globalFlags, groupOf, groups } from '../src/cli/terminal/commands.ts';

/** The manual page, made from the table of commands. `npm run docs` writes it. */
export const MAN_FILE = 'docs/svc.1';

/** `exits`: each exit code with its cause. */
export function manPage(exits: readonly (readonly [code: string, cause: string])[]): string {
  const isAlone = (name: string) => !name.includes(' ') && groupOf(name).length === 0;
  const sections = [
    ['COMMANDS', commands.filter(({ name }) => isAlone(name))] as const,
    ...groups().map(
      (group) =>
        [
          `SVC ${group.toUpperCase()}`,
          commands.filter(({ name }) => name.split(' ')[0] === group),
        ] as const,
    ),
  ];
  const lines = [
    '.\\" Made from the table of commands: npm run docs',
    '.TH SVC 1',
    '.SH NAME',
    'svc \\- a local AI runtime daemon that answers prompts',
    '.SH SYNOPSIS',
    '.B svc',
    '.I command',
    '[\\fIflags\\fR]',
    '.SH DESCRIPTION',
    text(
      'svc answers prompts with models on this machine, or in the cloud where you say so. ' +
        'A command that needs the daemon says how to start it, and svc run starts it.',
    ),
    ...sections.flatMap(([name, specs]) => [`.SH ${quoted(name)}`, ...specs.flatMap(command)]),
    '.SH FLAGS OF EVERY COMMAND',
    ...globalFlags.flatMap(flag),
    '.SH EXIT STATUS',
    ...exits.flatMap(([code, cause]) => ['.TP', `.B ${code}`, text(cause)]),
    '.SH SEE ALSO',
    text('svc --help, and the folder docs of the package.'),
  ];
  return `${lines.join('\n')}\n`;
}

type Spec = (typeof commands)[number];

function command({ name, args, summary, flags, examples }: Spec): string[] {
  const own = flags.filter((one) => !globalFlags.some((other) => other.name === one.name));
  return [
    `.SS ${quoted(['svc', name, args].filter(Boolean).join(' '))}`,
    text(summary),
    ...own.flatMap(flag),
    ...(examples.length === 0 ? [] : ['.PP', 'For example:', '.nf']),
    ...examples.map((example) => `.RS 4\n${text(`svc ${example}`)}\n.RE`),
    ...(examples.length === 0 ? [] : ['.fi']),
  ];
}

function flag({ name, short, value, summary }: (typeof globalFlags)[number]): string[] {
  const names = [...(short === undefined ? [] : [`-${short}`]), `--${name}`];
  const bold = names.map((one) => `\\fB${escaped(one)}\\fR`).join(', ');
  return ['.TP', bold + (value === undefined ? '' : ` \\fI${escaped(value)}\\fR`), text(summary)];
}

/** A line of text. What begins as a request of the formatter is marked as text. */
function text(line: string): string {
  return escaped(line).replace(/^[.']/, '\\&$&');
}

function escaped(line: string): string {
  return line.replaceAll('\\', '\\e').replaceAll('-', '\\-');
}

function quoted(name: string): string {
  return `"${escaped(name).replaceAll('"', '\\(dq')}"`;
}
