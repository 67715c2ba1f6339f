import { parentPort, workerData } from 'node:worker_threads';
import { asStoreError } from '../failure.ts';
import { EventLog } from './event-log.ts';
import type { Alarm, Call, Reply } from './messages.ts';
import type { OpenOptions } from './open.ts';
import { packError } from './thrown-error.ts';

/**
 * The thread that owns the database. Its first call opens the log.
 * It answers calls in their order, except `verify`, which lets later calls pass.
 */

const options = workerData as OpenOptions;
let log: EventLog | null = null;

parentPort?.on('message', (call: Call) => void answer(call));
parentPort?.on('messageerror', (error) => {
  throw error;
});

async function answer({ id, method, args }: Call): Promise<void> {
  const reply = await perform(id, method, args);
  const isBytes = 'result' in reply && reply.result instanceof Uint8Array;
  parentPort?.postMessage(reply, isBytes ? [(reply.result as Uint8Array<ArrayBuffer>).buffer] : []);
}

async function perform(id: number, method: Call['method'], args: unknown[]): Promise<Reply> {
  try {
    log ??= openLog();
    const call = log[method] as (...args: unknown[]) => unknown;
    const result = await call.apply(log, args);
    if (method === 'append') followWords(WORDS_AFTER_MS);
    return { id, result };
  } catch (error) {
    return { id, error: packError(toStoreError(error)) };
  }
}

function openLog(): EventLog {
  const opened = new EventLog(options);
  watchFiles(opened);
  buildWords(opened);
  followWords(WORDS_AFTER_MS);
  return opened;
}

/** The index of words follows the log at the latest so long after a commit. */
function followWords(after_ms: number): void {
  if (following !== null) return;
  following = setTimeout(() => {
    following = null;
    if (log?.wordSteps.follow()) followWords(WORDS_PAUSE_MS);
  }, after_ms).unref();
}

let following: NodeJS.Timeout | null = null;
/** A step of many runs costs little more than one of a single run. */
const WORDS_AFTER_MS = 1000;

/** Builds the index of words of an old log in steps. Calls pass between them. */
function buildWords(opened: EventLog): void {
  const step = () => {
    if (log === opened && opened.wordSteps.build()) setTimeout(step, WORDS_PAUSE_MS).unref();
  };
  setTimeout(step, WORDS_PAUSE_MS).unref();
}

/** Between two steps. A step takes about as long. */
const WORDS_PAUSE_MS = 10;

/** An idle daemon also notices that its files are gone. */
function watchFiles(opened: EventLog): void {
  const timer = setInterval(() => {
    const lost = opened.findLostFiles();
    if (lost === null) return;
    clearInterval(timer);
    parentPort?.postMessage({ alarm: packError(lost) } satisfies Alarm);
  }, options.limits.store_look_idle_ms);
  timer.unref();
}

/** An error of SQLite in a read is a fault of the file. Writes throw store errors already. */
function toStoreError(error: unknown): unknown {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_')
    ? asStoreError(error, options.database)
    : error;
}
