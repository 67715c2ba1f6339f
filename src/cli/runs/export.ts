import { SvcError } from '../../errors.ts';
import { programVersion } from '../../home/version.ts';
import { oneLine } from '../../logs/plain.ts';
import { exportRun } from '../../runtime/history/export.ts';
import { redacted } from '../../runtime/history/redact.ts';
import type { Context } from '../context.ts';
import { INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { textFlag } from '../parse/flag-values.ts';
import { note } from '../print/output.ts';
import { type OpenLog, withLog } from './open-log.ts';
import { type Output, openOutput } from './output-file.ts';
import { salvage } from './salvage.ts';
import { noSuchRun } from './why.ts';

/** Exports one run for replay, or the whole log as JSON lines. Exit 1 if a part is unreadable. */
export async function run({ paths, args, flags }: Context): Promise<number> {
  const [id] = args;
  const all = flags.all === true;
  if (all === (id !== undefined))
    throw new SvcError(
      'usage',
      all
        ? 'Give either the id of a run or --all, not both.'
        : 'Give the id of a run, or --all for the whole log.',
    );
  const file = textFlag(flags, 'output');
  const redact = flags.redact === true;
  const interrupt = onInterrupt();
  const outcome = await withLog(paths, async (log) => {
    const output = openOutput(file);
    try {
      const exit =
        id === undefined
          ? await exportAll(log, output, redact, interrupt.signal)
          : await exportOne(log, id, output, redact);
      await output.close();
      return exit;
    } catch (error) {
      await output.abandon();
      throw error;
    }
  });
  interrupt.release();
  if (file !== undefined && outcome !== INTERRUPTED) note(oneLine(`Written to ${file}.`));
  return outcome;
}

async function exportOne(
  log: OpenLog,
  id: string,
  output: Output,
  redact: boolean,
): Promise<number> {
  let found = false;
  for await (const piece of exportRun(log, await log.findRun(id), {
    redact,
    version: programVersion(),
    now: Date.now(),
  })) {
    found = true;
    await output.write(piece);
  }
  if (!found) throw noSuchRun(id);
  return 0;
}

async function exportAll(
  log: OpenLog,
  output: Output,
  redact: boolean,
  signal: AbortSignal,
): Promise<number> {
  let exit = 0;
  const report = (problem: string) => {
    exit = 1;
    note(oneLine(problem));
  };
  for await (const event of salvage(log, report)) {
    if (signal.aborted) return INTERRUPTED;
    if (output.gone) return 0;
    await output.write(`${JSON.stringify(redact ? redacted(event) : event)}\n`);
  }
  for (const problem of await log.problems()) report(problem);
  return exit;
}
