import { type Context, createContext, Script } from 'node:vm';
import { usedCpuMs } from '../async/timers.ts';
import { SvcError } from '../errors.ts';

/**
 * Runs synchronous work on third-party content, such as a schema, with a time limit.
 * V8 stops the work, and no code in it can catch that. The limit is CPU time: on a busy machine the
 * work is repeated with more time, so it must be repeatable. Throws engine_timed_out.
 */
export function withinTime<T>(limitMs: number, what: string, work: () => T): T {
  for (let timeout = limitMs; ; timeout *= 2) {
    const before = usedCpuMs();
    try {
      return callInContext(work, timeout) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT')
        throw error;
      if (usedCpuMs() - before < limitMs * COMPUTED && timeout < limitMs * TIMES_MAX) continue;
      throw new SvcError(
        'engine_timed_out',
        `${what} took longer than ${limitMs} ms of CPU time.`,
        { cause: error, retryable: false },
      );
    }
  }
}

/** In a context that is kept, because a new one takes longer than the work of a usual template. */
function callInContext(work: () => unknown, timeout: number): unknown {
  context ??= createContext({ work: null });
  context.work = work;
  try {
    return CALL.runInContext(context, { timeout });
  } finally {
    context.work = null;
  }
}

let context: Context | undefined;
const CALL = new Script('work()');
/** The part of the limit that must be CPU time. */
const COMPUTED = 0.8;
const TIMES_MAX = 4;
