import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { SvcError } from '../../../errors.ts';
import { defaultLimits, type Limits } from '../../../limits.ts';
import { notOpen } from '../failure.ts';
import { own } from '../files/ownership.ts';
import type { EventStore } from '../port.ts';
import type { Ask, OpenStore } from '../store.ts';
import { createStore, type StoredLog, type StoreOptions } from '../store.ts';
import type { Alarm, Call, Notice, Reply } from './messages.ts';
import type { OpenOptions } from './open.ts';
import { unpackError } from './thrown-error.ts';

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
  rewritten = 0;
  readonly findsRequests = true;
  private thread: StoreThread | null = null;
  /** Its log is not open yet. */
  private opening: StoreThread | null = null;

  constructor(options: SqliteOptions) {
    this.options = options;
    this.limits = options.limits ?? defaultLimits;
  }

  ask: Ask = (method, ...args) =>
    this.thread === null ? Promise.reject(notOpen()) : this.thread.call(method, ...args);

  async open(): Promise<OpenStore> {
    const { database, highWater, onAlarm = () => {}, onReindexed = () => {} } = this.options;
    const release = own(database);
    if (release === null)
      throw new SvcError(
        'daemon_already_running',
        `This process has the event log ${database} open already.`,
      );
    const limits = threadLimits(this.limits);
    const thread = new StoreThread({ database, highWater, limits }, onAlarm, () => {
      this.rewritten += 1;
      onReindexed();
    });
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

interface PendingCall {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * The main thread's side of the store's thread. It owns the calls that have no reply yet.
 *
 * 1. Each call gets one answer: that of the thread, or store_failed if the thread is dead.
 * 2. `gone` resolves when the thread has ended, and so has released the file.
 */
class StoreThread {
  readonly gone: Promise<void>;
  private readonly worker: Worker;
  /** By name. Old tables of a `Map` would keep answered calls alive. */
  private pending: Record<string, PendingCall> = Object.create(null);
  private failure: SvcError | null = null;
  private lastId = 0;

  /** `onAlarm`: the log can no longer be written, and no call has reported it. */
  constructor(options: OpenOptions, onAlarm: (error: Error) => void, onReindexed: () => void) {
    // The worker is beside this file, in the sources and in the build. Threads inherit the loader.
    this.worker = new Worker(
      new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url),
      {
        workerData: options,
        name: 'svc-store',
        resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
      },
    );
    this.worker.on('message', (message: Reply | Alarm | Notice) => {
      if ('alarm' in message) onAlarm(unpackError(message.alarm));
      else if ('reindexed' in message) onReindexed();
      else this.settle(message);
    });
    this.worker.on('messageerror', (error) => this.abandon(error));
    this.worker.on('error', (error) => this.abandon(error));
    this.gone = new Promise((resolve) => {
      this.worker.on('exit', (code) => {
        this.abandon(new Error(`the thread of the store ended with ${code}`));
        resolve();
      });
    });
  }

  /** The thread is dead or dying, and answers no more calls. */
  get failed(): boolean {
    return this.failure !== null;
  }

  call: Ask = (method, ...args) =>
    new Promise((resolve, reject) => {
      if (this.failure !== null) throw this.failure;
      this.lastId += 1;
      this.pending[nameOf(this.lastId)] = { resolve: resolve as PendingCall['resolve'], reject };
      this.worker.postMessage({ id: this.lastId, method, args } satisfies Call);
    });

  /** Ends the thread. A blocked disk call delays that, but not the exit of the process. */
  async end(): Promise<void> {
    this.worker.unref();
    this.abandon(new Error('the thread of the store was ended'));
    await this.worker.terminate();
  }

  private settle(reply: Reply): void {
    const name = nameOf(reply.id);
    const call = this.pending[name];
    delete this.pending[name];
    if ('error' in reply) call?.reject(unpackError(reply.error));
    else call?.resolve(reply.result);
  }

  private abandon(cause: unknown): void {
    this.failure ??= new SvcError('store_failed', undefined, { cause });
    for (const { reject } of Object.values(this.pending)) reject(this.failure);
    this.pending = Object.create(null);
  }
}

/** A number would be an index. */
function nameOf(id: number): string {
  return `call ${id}`;
}

/** Bound of the young part of the thread's heap. A commit needs little of it. */
const YOUNG_MB = 2;
