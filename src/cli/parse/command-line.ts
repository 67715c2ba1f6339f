import sade from 'sade';
import { type CommandSpec, commands, flagsOf, groupOf } from '../commands.ts';
import type { Flags } from '../context.ts';
import {
  type Arguments,
  type CommandForm,
  type FlagForm,
  type Line,
  Misuse,
  readArguments,
  splitLine,
} from './line.ts';
import { misuse, unknownCommand, unknownFlag } from './refusals.ts';

export interface Actions<T> {
  run(spec: CommandSpec, args: string[], flags: Flags): T;
  /** Help for everything (an empty name), for a group such as `runs`, or for a command. */
  help(name: string): T;
}

/** What sade gives to an action. */
interface Options {
  _: string[];
}

/**
 * Reads a command line, and has sade call the action of its words. sade would print and exit by
 * itself for a wrong line, so such a line does not reach it. Throws usage.
 */
export function dispatch<T>(argv: readonly string[], { run, help }: Actions<T>): T {
  const line = splitLine(argv, FLAGS);
  const { words } = line;
  if (line.unknown !== null) throw unknownFlag(line.unknown, words);
  const [first] = words;
  const isHelp = first === 'help';
  if (line.flags.has('help')) return help(helpName(isHelp ? words.slice(1) : words));
  // Only these are registered: all commands take 1 ms longer.
  const specs = commands.filter(({ name }) => name.split(' ', 1)[0] === first);
  if (specs.length === 0 && first !== undefined && !isHelp) throw unknownCommand(first);
  const program = sade('svc').command('help', '', { default: true });
  program.action(({ _: name }: Options) => {
    const flag = [...line.flags.keys()].find((flag) => flag !== 'json');
    if (flag !== undefined) throw unknownFlag(`--${flag}`, words);
    return help(helpName(name));
  });
  for (const spec of specs)
    program.command(spec.name).action(({ _: rest }: Options) => {
      const { args, flags } = read(spec, rest, line);
      return run(spec, args, flags);
    });
  const { handler, args } = program.parse(['node', 'svc', '--', ...words], {
    lazy: true,
  }) as sade.LazyOutput;
  return handler(...args);
}

/** What the reader needs of a command, with every flag that it accepts. */
export function formOf(spec: CommandSpec): CommandForm {
  return { ...spec, flags: flagsOf(spec) };
}

/** A name or a letter means the same in every command. */
const FLAGS: readonly FlagForm[] = commands.flatMap(flagsOf);

function read(spec: CommandSpec, args: string[], line: Line): Arguments {
  try {
    return readArguments(formOf(spec), args, line);
  } catch (error) {
    throw error instanceof Misuse ? misuse(error, spec, line) : error;
  }
}

/** The command or the group that the words begin with. Throws usage when there is none. */
function helpName(words: readonly string[]): string {
  for (let count = words.length; count > 0; count -= 1) {
    const name = words.slice(0, count).join(' ');
    if (commands.some((command) => command.name === name)) return name;
  }
  const name = words.join(' ');
  if (name !== '' && groupOf(name).length === 0) throw unknownCommand(name);
  return name;
}
