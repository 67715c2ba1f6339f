import { createContext, Script } from 'node:vm';
import { SvcError } from '../../../errors.ts';

/**
 * Does synchronous work that a model file controls, such as rendering its chat template, and ends it at the limit. The script engine itself
 * breaks off what runs inside such a call, which no code in it can catch. The limit is one of computing: on a machine that gave the process
 * less than that in the time, the work, which must be safe to repeat, is given more time. Throws SvcError: engine_timed_out.
 */
export function withinTime<T>(limit_ms: number, what: string, work: () => T): T {
  for (let timeout = limit_ms; ; timeout *= 2) {
    const before = process.cpuUsage();
    try {
      return CALL.runInContext(createContext({ work }), { timeout }) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT')
        throw error;
      const { user, system } = process.cpuUsage(before);
      if ((user + system) / 1000 < limit_ms * COMPUTED && timeout < limit_ms * TIMES_MAX) continue;
      throw new SvcError('engine_timed_out', `${what} took longer than ${limit_ms} ms.`, {
        cause: error,
        retryable: false,
      });
    }
  }
}

const CALL = new Script('work()');
/** The part of the limit that must have been computed. */
const COMPUTED = 0.8;
const TIMES_MAX = 4;
