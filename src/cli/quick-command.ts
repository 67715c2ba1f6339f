import type { CommandModule } from './terminal/context.ts';
import { execute, perform } from './terminal/execute.ts';
import {
  type Arguments,
  type CommandForm,
  readArguments,
  splitLine,
} from './terminal/parse/line.ts';

/**
 * The build throws it where a quick command would import a module outside its bundle. Nothing is
 * printed by then.
 */
export const NOT_QUICK = Symbol('left to the whole program');

/** A command that is one script. `keepCode` keeps its compiled code. False: it is not run. */
export type ScriptMain = (argv: readonly string[], keepCode: () => void) => Promise<boolean>;

/**
 * A command that scripts call often. It reads its command line without the table of commands.
 * Resolves with false when the whole program must handle the line: for help, a mistake, another
 * command, or more code.
 */
export function quickCommand(spec: CommandForm, run: CommandModule['run']): ScriptMain {
  return async (argv, keepCode) => {
    const line = readQuickLine(argv, spec);
    if (line === null) return false;
    let isLeft = false;
    await execute(line.flags.json === true, () =>
      perform(spec.name, run, line).catch((thrown: unknown) => {
        isLeft = thrown === NOT_QUICK;
        if (!isLeft) throw thrown;
        return 0;
      }),
    );
    if (isLeft) {
      process.removeAllListeners('uncaughtException');
      return false;
    }
    return endWith(keepCode);
  };
}

/** All is written. Without the exit, Node first frees its whole memory. */
export function endWith(keepCode: () => void): never {
  // Only a success has gone the whole way, with all the functions that it needs.
  if (process.exitCode === 0) keepCode();
  process.exit();
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
