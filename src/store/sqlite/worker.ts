import { setImmediate as turn } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { SvcError } from '../../errors.ts';
import { asStoreError } from '../failure.ts';
import { type Alarm, type Call, type Calls, packError, type Reply } from './calls.ts';
import { EventLog } from './event-log.ts';
import type { OpenOptions } from './open.ts';

/** The thread that owns the database: it answers calls in the order in which they come, but for a check of everything, which others may overtake. */

const options = workerData as OpenOptions;
let log: EventLog | null = null;

const calls: Calls = {
  open: () => {
    log = new EventLog(options);
    watch(log);
    return { report: log.report(), damaged: log.audit.checkNewest(START_RUNS) };
  },
  append: (rows) => opened().append(rows),
  reserve: () => opened().reserve(),
  spendReserve: () => opened().spendReserve(),
  readStream: (...args) => opened().reads.readStream(...args),
  lastEvent: (stream) => opened().reads.lastEvent(stream),
  readAll: (...args) => opened().reads.readAll(...args),
  listRuns: (query) => opened().reads.listRuns(query),
  getRun: (run_id) => opened().reads.getRun(run_id),
  readRecord: (run_id) => opened().reads.readRecord(run_id),
  runHead: (run_id) => opened().reads.runHead(run_id),
  getRunByKey: (key) => opened().reads.getRunByKey(key),
  unfinishedRuns: () => opened().reads.unfinishedRuns(),
  runsAt: (...args) => opened().reads.runsAt(...args),
  startedStreams: (...args) => opened().reads.startedStreams(...args),
  countRuns: () => opened().reads.countRuns(),
  prune: (query) => opened().prune(query),
  verify: () => opened().verify(turn),
  verifyPart: (now, restart) => {
    if (restart) opened().audit.restart();
    return opened().audit.part(now);
  },
  verified: () => opened().audit.report(),
  mendRun: (line) => opened().mendRun(line),
  close: () => log?.close(),
};

/** Runs looked at when the log is opened, without their texts: some hundred milliseconds. The slow check looks at all. */
const START_RUNS = 5000;

/** A daemon without work notices too that its files are gone. */
function watch(opened: EventLog): void {
  const timer = setInterval(() => {
    const lost = opened.lookForFiles();
    if (lost === null) return;
    clearInterval(timer);
    parentPort?.postMessage({ alarm: packError(lost) } satisfies Alarm);
  }, options.limits.store_look_idle_ms);
  timer.unref();
}

parentPort?.on('message', (call: Call) => void answer(call));
parentPort?.on('messageerror', (error) => {
  throw error;
});

async function answer({ id, method, args }: Call): Promise<void> {
  const answered = await reply(id, calls[method] as (...args: unknown[]) => unknown, args);
  const bytes =
    'result' in answered && answered.result instanceof Uint8Array
      ? [answered.result.buffer as ArrayBuffer]
      : [];
  parentPort?.postMessage(answered, bytes);
}

async function reply(
  id: number,
  call: (...args: unknown[]) => unknown,
  args: unknown[],
): Promise<Reply> {
  try {
    return { id, result: await call(...args) };
  } catch (error) {
    return { id, error: packError(known(error)) };
  }
}

/** A read that fails tells about the file; whatever else has been told already. */
function known(error: unknown): unknown {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_')
    ? asStoreError(error, options.database)
    : error;
}

function opened(): EventLog {
  if (log === null) throw new SvcError('store_failed', 'The event log is not open.');
  return log;
}
