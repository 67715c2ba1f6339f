import { anySignal } from '../../async/signals.ts';
import { configuredPatience } from '../run/answer.ts';
import { ensureDaemon } from '../run/ensure-daemon.ts';
import { followRun } from '../run/follow.ts';
import { AnswerPrinter, createPrinting, finish, isAnswered } from '../run/print-answer.ts';
import { wholeIdOf } from '../terminal/connect/whole-id.ts';
import type { Context } from '../terminal/context.ts';
import { onInterrupt } from '../terminal/interrupt.ts';
import { eventFlag } from '../terminal/parse/flag-values.ts';
import { note } from '../terminal/print/output.ts';
import { openStdout } from '../terminal/print/stdout-stream.ts';

/** Follows the answer of a run to its end. Ctrl-C does not stop the run. */
export async function run(context: Context): Promise<number> {
  const { args, flags, paths, json } = context;
  const id = await wholeIdOf(paths, args[0] ?? '');
  const from_seq = eventFlag(flags, 'from', 0) ?? 0;
  const interrupt = onInterrupt(
    () => json || note(`The run continues. To follow it again: svc runs attach ${id}`),
  );
  const stdout = openStdout();
  const printer = json ? null : new AnswerPrinter(stdout);
  const leave = anySignal([interrupt.signal, stdout.gone]);
  const steps = createPrinting(printer, json, leave);
  try {
    const record = await followRun({
      paths,
      what: { id, from_seq },
      cancel: new AbortController().signal,
      leave,
      steps,
      startDaemon: () => ensureDaemon(context, { quiet: true }),
      patience: () => configuredPatience(paths),
    });
    // A part of the output is not the answer.
    const output = from_seq === 0 ? steps.unprintedOf(record) : record.output;
    await printer?.end(from_seq === 0 ? output : '', isAnswered(record));
    const { hasText, maxTokens } = steps;
    const stats = flags.stats === true;
    return finish({ record, output, json, stdout, interrupted: false, stats, hasText, maxTokens });
  } catch (error) {
    await printer?.end('', false);
    if (interrupt.signal.aborted || stdout.gone.aborted) return 0;
    throw error;
  } finally {
    interrupt.release();
  }
}
