import { setTimeout as delay } from 'node:timers/promises';
import { SvcError } from '../../errors.ts';
import { defaultLimits, type Limits } from '../../limits.ts';
import type { Ask, Opened } from '../calls.ts';
import { own } from '../files/ownership.ts';
import type { EventStore } from '../port.ts';
import { createStore, type StoredLog, type StoreOptions } from '../store.ts';
import type { OpenOptions } from './open.ts';
import { StoreThread } from './thread.ts';

export interface SqliteOptions extends StoreOptions {
  database: string;
  /** File of the high-water mark. */
  highWater: string;
  /** The log can no longer be written, and no call has reported it. */
  onAlarm?(error: Error): void;
  limits?: OpenOptions['limits'] & Pick<Limits, 'close_ms'>;
}

/**
 * The event log in an SQLite database. A thread owns it, so a slow disk never blocks the event
 * loop.
 */
export function createSqliteStore(options: SqliteOptions): EventStore {
  return createStore(new ThreadedLog(options), options);
}

/** Starts the thread of a log, and ends it. */
class ThreadedLog implements StoredLog {
  private readonly options: SqliteOptions;
  private readonly limits: NonNullable<SqliteOptions['limits']>;
  private thread: StoreThread | null = null;
  /** Its log is not open yet. */
  private opening: StoreThread | null = null;

  constructor(options: SqliteOptions) {
    this.options = options;
    this.limits = options.limits ?? defaultLimits;
  }

  ask: Ask = (method, ...args) =>
    this.thread === null
      ? Promise.reject(new SvcError('store_failed', 'The event log is not open.'))
      : this.thread.call(method, ...args);

  async open(): Promise<Opened> {
    const { database, highWater, onAlarm = () => {} } = this.options;
    const release = own(database);
    if (release === null)
      throw new SvcError(
        'daemon_already_running',
        `This process has the event log ${database} open already.`,
      );
    const limits = threadLimits(this.limits);
    const thread = new StoreThread({ database, highWater, limits }, onAlarm);
    thread.gone.then(release, release);
    this.opening = thread;
    try {
      const opened = await thread.call('open');
      this.thread = thread;
      return opened;
    } catch (error) {
      await thread.end();
      throw error;
    } finally {
      this.opening = null;
    }
  }

  /** Leaves a thread that the disk blocks to itself after `close_ms`. */
  async close(): Promise<void> {
    const isOpen = this.thread !== null && !this.thread.failed;
    const thread = this.thread ?? this.opening;
    this.thread = null;
    if (thread === null) return;
    const done = new AbortController();
    const late = delay(this.limits.close_ms, 'late', { signal: done.signal }).catch(() => 'closed');
    try {
      const closed = isOpen ? thread.call('close').then(() => thread.end()) : thread.end();
      if ((await Promise.race([closed, late])) === 'late')
        throw new SvcError('store_failed', 'The event log did not close in time.');
    } finally {
      done.abort();
      thread.end().catch(() => {});
    }
  }
}

/** Only these cross into the thread. */
function threadLimits(limits: OpenOptions['limits']): OpenOptions['limits'] {
  const { store_lock_ms, store_page_bytes, store_look_ms, store_look_idle_ms, reserve_bytes } =
    limits;
  return { store_lock_ms, store_page_bytes, store_look_ms, store_look_idle_ms, reserve_bytes };
}
