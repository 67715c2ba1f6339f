import { parentPort, workerData } from 'node:worker_threads';
import { asStoreError, isDamage } from '../failure.ts';
import { copyTables } from '../files/copy-tables.ts';
import { EventLog } from './event-log.ts';
import type { Alarm, Call, Notice, Reply } from './messages.ts';
import type { OpenOptions } from './open.ts';
import { packError } from './thrown-error.ts';

/**
 * The thread that owns the database. Its first call opens the log.
 * It answers calls in their order, except `verify`, which lets later calls pass.
 */
if (parentPort !== null) {
  const port = parentPort;
  const perform = answersOf(workerData as OpenOptions, (message) => port.postMessage(message));
  port.on('message', async (call: Call) => {
    const reply = await perform(call);
    const isBytes = 'result' in reply && reply.result instanceof Uint8Array;
    port.postMessage(reply, isBytes ? [(reply.result as Uint8Array<ArrayBuffer>).buffer] : []);
  });
  port.on('messageerror', (error) => {
    throw error;
  });
}

/**
 * Answers the calls of one log, in the calling thread. The first call that meets a damaged page has
 * the file written again, and is then answered. If the events are damaged too, the file stays, and
 * lists leave out what cannot be read.
 */
export function answersOf(
  options: OpenOptions,
  tell: (message: Alarm | Notice) => void,
): (call: Call) => Promise<Reply> {
  let log: EventLog | null = null;
  let following: NodeJS.Timeout | null = null;
  let watching: NodeJS.Timeout | undefined;
  /** The one try of the life of a log. */
  let isMended = false;

  /** The index of words follows the log at the latest so long after a commit. */
  function followWords(after_ms: number): void {
    if (following !== null) return;
    following = setTimeout(() => {
      following = null;
      if (log?.wordSteps.follow()) followWords(WORDS_PAUSE_MS);
    }, after_ms).unref();
  }

  /** Builds the index of words of an old log in steps. Calls pass between them. */
  function buildWords(opened: EventLog): void {
    const step = () => {
      if (log === opened && opened.wordSteps.build()) setTimeout(step, WORDS_PAUSE_MS).unref();
    };
    setTimeout(step, WORDS_PAUSE_MS).unref();
  }

  /** An idle daemon also notices that its files are gone. */
  function watchFiles(opened: EventLog): void {
    watching = setInterval(() => {
      const lost = opened.findLostFiles();
      if (lost === null) return;
      clearInterval(watching);
      tell({ alarm: packError(lost) });
    }, options.limits.store_look_idle_ms).unref();
  }

  function openLog(): EventLog {
    const opened = new EventLog(options, isMended);
    if (opened.reindex()) tell({ reindexed: true });
    watchFiles(opened);
    buildWords(opened);
    followWords(WORDS_AFTER_MS);
    return opened;
  }

  /** Closes the log, and mends its file. The next call opens it again. */
  function mend(): void {
    isMended = true;
    clearInterval(watching);
    try {
      log?.close();
    } catch {
      // The copy is made from the disk.
    }
    log = null;
    if (copyTables(options.database)) tell({ reindexed: true });
  }

  const perform = async (method: Call['method'], args: Call['args']) => {
    log ??= openLog();
    if (method === 'close') clearInterval(watching);
    const call = log[method] as (...args: unknown[]) => unknown;
    return await call.apply(log, args);
  };

  return async ({ id, method, args }) => {
    try {
      const result = await perform(method, args).catch((error: unknown) => {
        if (isMended || !(isDamage(error) || isDamage((error as Error).cause))) throw error;
        mend();
        return perform(method, args);
      });
      if (method === 'append') followWords(WORDS_AFTER_MS);
      return { id, result };
    } catch (error) {
      return { id, error: packError(toStoreError(error, options.database)) };
    }
  };
}

/** A step of many runs costs little more than one of a single run. */
const WORDS_AFTER_MS = 1000;
/** Between two steps. A step takes about as long. */
const WORDS_PAUSE_MS = 10;

/** An error of SQLite in a read is a fault of the file. Writes throw store errors already. */
function toStoreError(error: unknown, database: string): unknown {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_')
    ? asStoreError(error, database)
    : error;
}
