import sade from 'sade';
import {
  type CommandSpec,
  commands,
  type FlagSpec,
  flagsOf,
  globalFlags,
  isGroup,
} from '../commands.ts';
import type { Flags } from '../context.ts';
import { type Options, readArguments } from './read-arguments.ts';
import { splitLine, VALUED } from './split-line.ts';
import { unknownCommand, unknownFlag } from './unknown.ts';

export interface Actions<T> {
  run(spec: CommandSpec, args: string[], flags: Flags): T;
  /** Help for everything (an empty name), for a group such as `runs`, or for a command. */
  help(name: string): T;
}

/**
 * Reads a command line with sade, and calls the action that it asks for.
 *
 * 1. Values stay text, `--no-x` is a flag with that name, and after `--` everything is an argument.
 * 2. For a wrong command line sade prints and exits by itself. Such a line does not reach it.
 * 3. Only the commands that begin with the first word are registered: all take 1 ms longer.
 * Throws usage.
 */
export function dispatch<T>(argv: readonly string[], { run, help }: Actions<T>): T {
  const line = splitLine(argv);
  const { words, flags } = line;
  const [first] = words;
  const specs = commands.filter(({ name }) => name.split(' ', 1)[0] === first);
  if (specs.length === 0 && first !== undefined && first !== 'help') throw unknownCommand(first);
  const program = sade('svc').command('help', '', { default: true });
  for (const flag of globalFlags) addOption(program, flag);
  program.action(({ _: name }: Options) => help(helpName(name)));
  for (const spec of specs) {
    program.command(spec.name);
    for (const flag of flagsOf(spec)) addOption(program, flag);
    program.action((options: Options) => {
      const { args, flags } = readArguments(spec, options, line);
      return run(spec, args, flags);
    });
  }
  let helpFor: string | null = null;
  program.help = () => {
    helpFor = helpName(first === 'help' ? words.slice(1) : words);
  };
  const unknown = (flag: string) => {
    throw unknownFlag(flag, words);
  };
  const found: sade.LazyOutput | undefined = program.parse(
    ['node', 'svc', ...flags, '--', ...words],
    { lazy: true, string: VALUED, unknown },
  );
  return helpFor === null ? found.handler(...found.args) : help(helpFor);
}

/** sade reads `--no-x` as x. The help is ours, so it needs no summaries. */
function addOption(program: sade.Sade, { name }: FlagSpec): void {
  program.option(`--${name.replace(/^no-/, '')}`);
}

/** The command or the group that the words begin with. Throws usage when there is none. */
function helpName(words: readonly string[]): string {
  for (let count = words.length; count > 0; count -= 1) {
    const name = words.slice(0, count).join(' ');
    if (commands.some((command) => command.name === name)) return name;
  }
  const name = words.join(' ');
  if (name !== '' && !isGroup(name)) throw unknownCommand(name);
  return name;
}
