import type { Context } from '../context.ts';
import { wholeFlag } from '../flag-values.ts';
import { onInterrupt } from '../interrupt.ts';
import { note } from '../output.ts';
import { followRun } from '../run/follow.ts';
import { AnswerPrinter } from '../run/print-answer.ts';
import { ready } from '../run/ready.ts';
import { finish, printing } from '../run/run.ts';
import { openStdout } from '../stdout-stream.ts';

/** Follows a run's answer to its end. Ctrl-C leaves it alone: the run goes on. */
export async function run(context: Context): Promise<number> {
  const { args, flags, paths, json } = context;
  const id = args[0] ?? '';
  const from_seq = wholeFlag(flags, 'from', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  const interrupt = onInterrupt(() => json || note(`Left it alone; the run goes on. Again: svc runs attach ${id}`));
  const stdout = openStdout();
  const printer = json ? null : new AnswerPrinter(stdout);
  try {
    const record = await followRun({
      ...{ paths, what: { id, from_seq }, cancel: new AbortController().signal, leave: AbortSignal.any([interrupt.signal, stdout.gone]) },
      steps: printing(printer, json),
      revive: () => ready(context),
    });
    await printer?.end(from_seq === 0 ? record.output : '', record.state === 'completed');
    return finish(record, json, stdout, false);
  } catch (error) {
    await printer?.end('', false);
    if (interrupt.signal.aborted || stdout.gone.aborted) return 0;
    throw error;
  } finally {
    interrupt.release();
  }
}
