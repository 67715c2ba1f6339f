import { keepWhenIdle } from '../home/compiled-code.ts';
import { readQuickLine, type ScriptMain } from './quick-command.ts';
import type { CommandModule } from './terminal/context.ts';
import { execute, perform } from './terminal/execute.ts';
import { outliveTerminal } from './terminal/interrupt.ts';
import type { CommandForm } from './terminal/parse/line.ts';

/**
 * The daemon as one file, with all that it may load later. Files that are found, read and linked
 * one by one took a third of its start. False: the whole program has to read the line.
 */
export function serveCommand(spec: CommandForm, run: CommandModule['run']): ScriptMain {
  return async (argv, keepCode) => {
    const line = readQuickLine(argv, spec);
    if (line === null) return false;
    keepWhenIdle(keepCode);
    outliveTerminal();
    await execute(line.flags.json === true, () => perform(spec.name, run, line));
    return true;
  };
}
