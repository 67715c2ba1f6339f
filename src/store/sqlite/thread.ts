import { Worker } from 'node:worker_threads';
import { SvcError } from '../../errors.ts';
import type { Ask } from '../calls.ts';
import type { Alarm, Call, Reply } from './messages.ts';
import type { OpenOptions } from './open.ts';
import { unpackError } from './thrown-error.ts';

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
export class StoreThread {
  readonly gone: Promise<void>;
  private readonly worker: Worker;
  private readonly pending = new Map<number, PendingCall>();
  private failure: SvcError | null = null;
  private lastId = 0;

  /** `onAlarm`: the log can no longer be written, and no call has reported it. */
  constructor(options: OpenOptions, onAlarm: (error: Error) => void) {
    // The worker is beside this file, in the sources and in the build. Threads inherit the loader.
    this.worker = new Worker(
      new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url),
      {
        workerData: options,
        name: 'svc-store',
      },
    );
    this.worker.on('message', (message: Reply | Alarm) =>
      'alarm' in message ? onAlarm(unpackError(message.alarm)) : this.settle(message),
    );
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
      this.pending.set(this.lastId, { resolve: resolve as PendingCall['resolve'], reject });
      this.worker.postMessage({ id: this.lastId, method, args } satisfies Call);
    });

  /** Ends the thread. A blocked disk call delays that, but not the exit of the process. */
  async end(): Promise<void> {
    this.worker.unref();
    this.abandon(new Error('the thread of the store was ended'));
    await this.worker.terminate();
  }

  private settle(reply: Reply): void {
    const call = this.pending.get(reply.id);
    this.pending.delete(reply.id);
    if ('error' in reply) call?.reject(unpackError(reply.error));
    else call?.resolve(reply.result);
  }

  private abandon(cause: unknown): void {
    this.failure ??= new SvcError('store_failed', undefined, { cause });
    for (const { reject } of this.pending.values()) reject(this.failure);
    this.pending.clear();
  }
}
