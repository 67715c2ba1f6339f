import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { whyRun } from '../../runtime/history/why.ts';
import type { Context } from '../context.ts';
import { note, print, printJson } from '../print/output.ts';
import { withLog } from './open-log.ts';

/** How a run came to be where it is, also when no daemon runs. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  const why = id.startsWith('run_') ? await withLog(paths, (log) => whyRun(log, id)) : null;
  if (why === null) throw noSuchRun(id);
  if (json) printJson(why);
  else {
    print(why.explanation.map(oneLine).join('\n'));
    if (!why.complete) note('Its beginning is no longer in the log.');
  }
  return 0;
}

export function noSuchRun(id: string): SvcError {
  return new SvcError('run_unknown', `The event log tells of no run ${JSON.stringify(id)}.`, {
    param: 'id',
  });
}
