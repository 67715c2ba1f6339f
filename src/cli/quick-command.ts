import type { CommandModule } from './context.ts';
import { execute, perform } from './execute.ts';
import { type PlainForm, readPlainLine } from './parse/plain-line.ts';

/**
 * A command that scripts call often. It reads a plain command line without the table of commands
 * and the parser. False: the line is not plain, so the whole program reads it.
 */
export function quickCommand(
  name: string,
  form: PlainForm,
  run: CommandModule['run'],
): (argv: readonly string[], keepCode: () => void) => Promise<boolean> {
  const words = name.split(' ').length;
  return async (argv, keepCode) => {
    const line = readPlainLine(argv.slice(words), form);
    if (line === null) return false;
    await execute(line.flags.json === true, () => perform(name, run, line));
    // Only a success has gone the whole way, with all the functions that it needs.
    if (process.exitCode === 0) keepCode();
    // All is written. Without this, Node first frees its whole memory.
    process.exit();
  };
}
