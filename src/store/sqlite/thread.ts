import { Worker } from 'node:worker_threads';
import { SvcError } from '../../errors.ts';
import { type Alarm, type Call, type Calls, type Reply, unpackError } from './calls.ts';
import type { OpenOptions } from './open.ts';

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * The store's thread, as the daemon's sees it.
 *
 * 1. Each call gets one answer: the thread's own, or store_failed when the thread is gone. None waits for ever on a dead one.
 * 2. `gone` resolves when the thread has ended and so has let go of the file.
 */
export class StoreThread {
  readonly gone: Promise<void>;
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private failure: SvcError | null = null;
  private calls = 0;

  /** `onAlarm`: the log cannot be written any more, and no call reported it. */
  constructor(options: OpenOptions, onAlarm: (error: Error) => void) {
    // The sources and the build have the same file beside this one, under their own extension; a loader given to this process works in the thread too.
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

  /** Whether the thread is dead or dying: no call will be answered. */
  get failed(): boolean {
    return this.failure !== null;
  }

  call<M extends keyof Calls>(
    method: M,
    ...args: Parameters<Calls[M]>
  ): Promise<Awaited<ReturnType<Calls[M]>>> {
    return new Promise((resolve, reject) => {
      if (this.failure !== null) throw this.failure;
      this.calls += 1;
      this.waiting.set(this.calls, { resolve: resolve as Waiting['resolve'], reject });
      this.worker.postMessage({ id: this.calls, method, args } satisfies Call);
    });
  }

  /** Ends the thread, whatever it does. One that is held up in the disk ends when that lets it go, and so does an exit of the process. */
  async end(): Promise<void> {
    this.worker.unref();
    this.abandon(new Error('the thread of the store was ended'));
    await this.worker.terminate();
  }

  private settle(reply: Reply): void {
    const waiting = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    if ('error' in reply) waiting?.reject(unpackError(reply.error));
    else waiting?.resolve(reply.result);
  }

  private abandon(cause: unknown): void {
    this.failure ??= new SvcError('store_failed', undefined, { cause });
    for (const { reject } of this.waiting.values()) reject(this.failure);
    this.waiting.clear();
  }
}
