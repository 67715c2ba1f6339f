import type { CommandModule } from './context.ts';
import { execute, perform } from './execute.ts';
import { type Arguments, type CommandForm, readArguments, splitLine } from './parse/line.ts';

/**
 * A command that scripts call often. It reads its command line without the table of commands.
 * False: the line asks for help, is wrong or is one of another command, so the whole program reads
 * it.
 */
export function quickCommand(
  spec: CommandForm,
  run: CommandModule['run'],
): (argv: readonly string[], keepCode: () => void) => Promise<boolean> {
  return async (argv, keepCode) => {
    const line = readQuickLine(argv, spec);
    if (line === null) return false;
    await execute(line.flags.json === true, () => perform(spec.name, run, line));
    // Only a success has gone the whole way, with all the functions that it needs.
    if (process.exitCode === 0) keepCode();
    // All is written. Without this, Node first frees its whole memory.
    process.exit();
  };
}

/** Null for a line that the whole program has to read. */
export function readQuickLine(argv: readonly string[], spec: CommandForm): Arguments | null {
  const name = spec.name.split(' ');
  const line = splitLine(argv, spec.flags);
  const isNamed = name.every((word, at) => line.words[at] === word);
  if (!isNamed || line.unknown !== null || line.flags.has('help')) return null;
  try {
    return readArguments(spec, line.words.slice(name.length), line);
  } catch (_) {
    return null;
  }
}
