import { SvcError } from '../../errors.ts';
import { isRun } from '../../kernel/stream.ts';
import { oneLine } from '../../logs/plain.ts';
import { whyRun } from '../../observability/history/why.ts';
import type { Context } from '../terminal/context.ts';
import { withLog } from '../terminal/offline/open-log.ts';
import { note, printJson, say } from '../terminal/print/output.ts';

/** Explains the state of a run, with or without a daemon. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const written = args[0] ?? '';
  const why = await withLog(paths, async (log) => {
    const id = await log.findRun(written);
    return isRun(id) ? whyRun(log, id) : null;
  });
  if (why === null) throw noSuchRun(written);
  if (json) printJson(why);
  else {
    say(why.explanation.map(oneLine).join('\n'));
    if (!why.complete) note('The log no longer has its beginning.');
  }
  return 0;
}

export function noSuchRun(id: string): SvcError {
  return new SvcError('run_unknown', `The event log has no run ${JSON.stringify(id)}.`, {
    param: 'id',
  });
}
