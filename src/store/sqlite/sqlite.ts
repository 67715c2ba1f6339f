import { setTimeout as delay } from 'node:timers/promises';
import { SvcError } from '../../errors.ts';
import { defaultLimits, type Limits } from '../../limits.ts';
import { own } from '../files/ownership.ts';
import type { EventStore, OpenReport, Project, RunRow, StoredEvent } from '../port.ts';
import { type EventRow, fromEventRow, fromRunData, toRows } from '../row.ts';
import type { Calls } from './calls.ts';
import type { OpenOptions } from './open.ts';
import { RowMender } from './repair.ts';
import { StoreThread } from './thread.ts';

export interface SqliteOptions {
  database: string;
  /** File of the high-water mark. */
  highWater: string;
  /** The row of a run, folded again from its events; null where they do not tell it any more. Without it no damaged row is made again. */
  project?: Project;
  /** A damaged row was made again. */
  onMended?(run_id: string): void;
  /** The log cannot be written any more. No call reported it. */
  onAlarm?(error: Error): void;
  limits?: OpenOptions['limits'] & Pick<Limits, 'close_ms'>;
}

/** The event log in an SQLite database, which a thread of its own owns, so that a slow disk does not hold up the event loop. */
export function createSqliteStore({
  database,
  highWater,
  limits = defaultLimits,
  project,
  onMended,
  onAlarm = () => {},
}: SqliteOptions): EventStore {
  const {
    store_lock_ms,
    store_page_bytes,
    store_look_ms,
    store_look_idle_ms,
    reserve_bytes,
    close_ms,
  } = limits;
  const threadLimits = {
    store_lock_ms,
    store_page_bytes,
    store_look_ms,
    store_look_idle_ms,
    reserve_bytes,
  };
  let thread: StoreThread | null = null;
  /** Not open yet. */
  let opening: StoreThread | null = null;

  const open = async (): Promise<OpenReport> => {
    const release = own(database);
    if (release === null)
      throw new SvcError(
        'daemon_already_running',
        `This process holds the event log ${database} already.`,
      );
    const started = new StoreThread({ database, highWater, limits: threadLimits }, onAlarm);
    started.gone.then(release, release);
    opening = started;
    try {
      const { report, damaged } = await started.call('open');
      thread = started;
      await mender.mendAll(damaged);
      return report;
    } catch (error) {
      await started.end();
      throw error;
    } finally {
      opening = null;
    }
  };

  const close = async (): Promise<void> => {
    const isOpen = thread !== null && !thread.failed;
    const closing = thread ?? opening;
    thread = null;
    if (closing !== null) await closeThread(closing, isOpen, close_ms);
  };

  const ask = async <M extends keyof Calls>(
    method: M,
    ...args: Parameters<Calls[M]>
  ): Promise<Awaited<ReturnType<Calls[M]>>> => {
    if (thread === null) throw new SvcError('store_failed', 'The event log is not open.');
    return thread.call(method, ...args);
  };

  const readStream: EventStore['readStream'] = async (stream, fromVersion, limit) =>
    (await ask('readStream', stream, fromVersion, limit)).map(fromEventRow);
  const mender = new RowMender({
    project: project === undefined ? null : (run_id) => project({ readStream }, run_id),
    put: (line) => ask('mendRun', line),
    onMended,
  });
  const read = <T>(attempt: () => Promise<T>) => mender.read(attempt);

  const listRuns: EventStore['listRuns'] = async (query) => {
    const page = await ask('listRuns', query);
    const damaged = page.flatMap((line) => (typeof line === 'string' ? [] : [line.run_id]));
    const lines = (await mender.mendAll(damaged)) ? await ask('listRuns', query) : page;
    return lines.map((line) => (typeof line === 'string' ? fromRunData(line) : line));
  };

  return {
    open,
    close,
    append: async (commit) => ask('append', toRows(commit)),
    reserve: () => ask('reserve'),
    spendReserve: () => ask('spendReserve'),
    readStream,
    lastEvent: async (stream) => eventOrNull(await ask('lastEvent', stream)),
    readAll: async (fromSeq, limit) => (await ask('readAll', fromSeq, limit)).map(fromEventRow),
    listRuns,
    getRun: async (run_id) => orNull(await read(() => ask('getRun', run_id))),
    readRecord: (run_id) => read(() => ask('readRecord', run_id)),
    runHead: (run_id) => read(() => ask('runHead', run_id)),
    getRunByKey: async (key) => orNull(await read(() => ask('getRunByKey', key))),
    unfinishedRuns: () => ask('unfinishedRuns'),
    runsAt: (...args) => ask('runsAt', ...args),
    startedStreams: (...args) => ask('startedStreams', ...args),
    countRuns: () => ask('countRuns'),
    prune: (query) => ask('prune', query),
    verify: () => ask('verify'),
    verifyPart: async (now, restart) => {
      const { done, damaged } = await ask('verifyPart', now, restart);
      await mender.mendAll(damaged);
      return { done, report: await ask('verified') };
    },
    verified: () => ask('verified'),
  };
}

function eventOrNull(row: EventRow | null): StoredEvent | null {
  return row === null ? null : fromEventRow(row);
}

function orNull(data: string | null): RunRow | null {
  return data === null ? null : fromRunData(data);
}

/** A thread that the disk holds up is left to itself after a while. */
async function closeThread(thread: StoreThread, isOpen: boolean, close_ms: number): Promise<void> {
  const over = new AbortController();
  const late = delay(close_ms, 'late', { signal: over.signal }).catch(() => 'closed');
  try {
    const closed = isOpen ? thread.call('close').then(() => thread.end()) : thread.end();
    const first = await Promise.race([closed, late]);
    if (first === 'late')
      throw new SvcError('store_failed', 'The event log did not close in time.');
  } finally {
    over.abort();
    thread.end().catch(() => {});
  }
}
