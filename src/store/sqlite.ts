import { setTimeout as delay } from 'node:timers/promises';
import { SvcError } from '../errors.ts';
import { defaultLimits, type Limits } from '../limits.ts';
import type { Calls } from './calls.ts';
import { own } from './ownership.ts';
import { fromEventRow, fromRunData, toRows } from './row.ts';
import type { EventStore, OpenReport, RunRow } from './store.ts';
import { StoreThread } from './thread.ts';

export interface SqliteOptions {
  database: string;
  /** File of the high-water mark. */
  highWater: string;
  limits?: Pick<Limits, 'store_lock_ms' | 'store_page_bytes' | 'reserve_bytes' | 'close_ms'>;
}

/** The event log in an SQLite database, which a thread of its own owns, so that a slow disk does not hold up the event loop. */
export function createSqliteStore({ database, highWater, limits = defaultLimits }: SqliteOptions): EventStore {
  const { store_lock_ms, store_page_bytes, reserve_bytes, close_ms } = limits;
  let thread: StoreThread | null = null;

  const open = async (): Promise<OpenReport> => {
    const release = own(database);
    if (release === null) throw new SvcError('daemon_already_running', `This process holds the event log ${database} already.`);
    const started = new StoreThread({ database, highWater, limits: { store_lock_ms, store_page_bytes, reserve_bytes } });
    started.gone.then(release, release);
    try {
      const report = await started.call('open');
      thread = started;
      return report;
    } catch (error) {
      await started.end();
      throw error;
    }
  };

  const close = async (): Promise<void> => {
    const closing = thread;
    thread = null;
    if (closing === null) return;
    await (closing.failed ? closing.end() : closeThread(closing, close_ms));
  };

  const ask = async <M extends keyof Calls>(method: M, ...args: Parameters<Calls[M]>): Promise<Awaited<ReturnType<Calls[M]>>> => {
    if (thread === null) throw new SvcError('store_failed', 'The event log is not open.');
    return thread.call(method, ...args);
  };

  return {
    open,
    close,
    append: async (commit) => ask('append', toRows(commit)),
    reserve: () => ask('reserve'),
    readStream: async (stream, fromVersion, limit) => (await ask('readStream', stream, fromVersion, limit)).map(fromEventRow),
    readAll: async (fromSeq, limit) => (await ask('readAll', fromSeq, limit)).map(fromEventRow),
    listRuns: async (query) => (await ask('listRuns', query)).map(fromRunData),
    getRun: async (run_id) => orNull(await ask('getRun', run_id)),
    getRunByKey: async (key) => orNull(await ask('getRunByKey', key)),
    unfinishedRuns: () => ask('unfinishedRuns'),
    runsAt: (...args) => ask('runsAt', ...args),
    startedStreams: (...args) => ask('startedStreams', ...args),
    countRuns: () => ask('countRuns'),
    prune: (query) => ask('prune', query),
    verify: () => ask('verify'),
  };
}

function orNull(data: string | null): RunRow | null {
  return data === null ? null : fromRunData(data);
}

/** A thread that the disk holds up is left to itself after a while: the process need not wait for it to end. */
async function closeThread(thread: StoreThread, close_ms: number): Promise<void> {
  const closed = new AbortController();
  const late = delay(close_ms, 'late', { signal: closed.signal }).catch(() => 'closed');
  try {
    const first = await Promise.race([thread.call('close').then(() => thread.end()), late]);
    if (first === 'late') throw new SvcError('store_failed', 'The event log did not close in time.');
  } finally {
    closed.abort();
    thread.end().catch(() => {});
  }
}
