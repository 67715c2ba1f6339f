import { setImmediate as turn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { SvcError } from '../errors.ts';
import { type Call, type Calls, packError, type Reply } from './calls.ts';
import { EventLog } from './event-log.ts';
import { asStoreError } from './failure.ts';
import type { OpenOptions } from './open.ts';

/** The thread that owns the database: it answers calls in the order in which they come, but for a check of everything, which others may overtake. */

const options = workerData as OpenOptions;
let log: EventLog | null = null;

const calls: Calls = {
  open: () => {
    log = new EventLog(options);
    return log.report();
  },
  append: (rows) => opened().append(rows),
  reserve: () => opened().reserve(),
  spendReserve: () => opened().spendReserve(),
  readStream: (...args) => opened().reads.readStream(...args),
  lastEvent: (stream) => opened().reads.lastEvent(stream),
  readAll: (...args) => opened().reads.readAll(...args),
  listRuns: (query) => opened().reads.listRuns(query),
  getRun: (run_id) => opened().reads.getRun(run_id),
  runHead: (run_id) => opened().reads.runHead(run_id),
  getRunByKey: (key) => opened().reads.getRunByKey(key),
  unfinishedRuns: () => opened().reads.unfinishedRuns(),
  runsAt: (...args) => opened().reads.runsAt(...args),
  startedStreams: (...args) => opened().reads.startedStreams(...args),
  countRuns: () => opened().reads.countRuns(),
  prune: (query) => opened().prune(query),
  verify: () => opened().verify(turn),
  close: () => log?.close(),
};

parentPort?.on('message', (call: Call) => void answer(call));
parentPort?.on('messageerror', (error) => {
  throw error;
});

async function answer({ id, method, args }: Call): Promise<void> {
  parentPort?.postMessage(await reply(id, calls[method] as (...args: unknown[]) => unknown, args));
}

async function reply(id: number, call: (...args: unknown[]) => unknown, args: unknown[]): Promise<Reply> {
  try {
    return { id, result: await call(...args) };
  } catch (error) {
    return { id, error: packError(known(error)) };
  }
}

/** A read that fails tells about the file; whatever else has been told already. */
function known(error: unknown): unknown {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_') ? asStoreError(error, options.database) : error;
}

function opened(): EventLog {
  if (log === null) throw new SvcError('store_failed', 'The event log is not open.');
  return log;
}
