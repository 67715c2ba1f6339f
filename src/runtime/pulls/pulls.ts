import { refusal } from '../../../machines/daemon/chart.ts';
import type { PullSnapshot } from '../../../machines/pull.ts';
import { isIn } from '../../../machines/step.ts';
import { anySignal } from '../../async/signals.ts';
import { timeoutSignal } from '../../async/timers.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import type { Instance } from '../../kernel/instance.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type DaemonKey, type PullKey, stream } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import type { FoundModel, PullerPort, PullInput, PullTask } from '../../ports/models.ts';
import { rejectWhenStalled } from '../disk/refuse-when-stalled.ts';
import { newPullId } from '../runs/ids.ts';
import { DAEMON_STOPPING, type PullRecord, pullError, pullRecord } from './record.ts';

/**
 * The pulls in progress. It counts the clients that follow each.
 *
 * 1. Requests for the same model share one pull.
 * 2. A pull without followers is cancelled. The downloaded part is kept.
 * 3. Each pull has one machine, in the stream `pull:<id>:<boot>`. A pull that ends leaves memory.
 */

export interface PullsOptions {
  kernel: Kernel;
  limits: Limits;
  log: Log;
  boot_id: string;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  puller: PullerPort<PullTask>;
  /** The model in a file. Null: the file is no longer in the models folder. */
  modelAt(path: string): Promise<ModelRecord | null>;
}

type PullInstance = Instance<PullSnapshot>;

interface Entry {
  id: string;
  key: string;
  followers: number;
  /** Resolves with the machine once its first event is durable. */
  instance: Promise<PullInstance>;
}

export class Pulls {
  private readonly options: PullsOptions;
  /** By key. */
  private readonly entries = new Map<string, Entry>();

  constructor(options: PullsOptions) {
    this.options = options;
    options.kernel.subscribe({ machine: 'pull' }, (event, snapshot) => {
      if (snapshot.status === 'done') this.forget(event.stream, snapshot);
    });
  }

  /**
   * Starts a pull, or joins the one of the same model. Yields its record, now and at each change.
   * The last record has the model. Throws invalid_request, busy, not_ready, daemon_stopping,
   * store_full, store_stalled, pull_cancelled, and the error of the pull.
   */
  async *pull(input: PullInput, client: string, signal: AbortSignal): AsyncIterable<PullRecord> {
    const entry = await this.join(input, client);
    try {
      yield* this.follow(await this.unlessStalled(entry.instance), signal);
    } finally {
      entry.followers -= 1;
      // On a stalled disk the cancel takes effect later, and no client waits for it.
      if (entry.followers === 0)
        await this.unlessStalled(this.requestCancel(entry, 'no follower waits for it')).catch(
          () => {},
        );
    }
  }

  /** Asks the hub for models with these words. */
  search(words: string, signal: AbortSignal): Promise<FoundModel[]> {
    const { puller, limits } = this.options;
    return puller.search(words, anySignal([signal, timeoutSignal(limits.pull_idle_ms)]));
  }

  /** Puts a file into the models folder. */
  async import(
    { path, name = null }: { path: string; name?: string | null },
    signal: AbortSignal,
  ): Promise<ModelRecord> {
    const { kernel, puller, modelAt } = this.options;
    const model = await rejectWhenStalled(kernel, async () =>
      modelAt(await puller.import({ path, name }, signal)),
    );
    if (model !== null) return model;
    throw new SvcError('model_invalid', 'The model is no longer in the models folder.');
  }

  /**
   * Resolves when the work of the pull has stopped. `cancelled` is false if the pull has other
   * followers: then it continues.
   */
  async cancel(pull_id: string, by: string): Promise<{ cancelled: boolean }> {
    return rejectWhenStalled(this.options.kernel, async () => {
      const entry = [...this.entries.values()].find(({ id }) => id === pull_id);
      if (entry === undefined) return { cancelled: true };
      if (entry.followers > 1) return { cancelled: false };
      await this.requestCancel(entry, by);
      await this.awaitEnd(entry);
      return { cancelled: true };
    });
  }

  /** Cancels every pull. Resolves when all work has stopped. */
  async close(): Promise<void> {
    await Promise.all(
      [...this.entries.values()].map(async (entry) => {
        await this.requestCancel(entry, DAEMON_STOPPING);
        await this.awaitEnd(entry);
      }),
    );
  }

  /** Adds a follower to the pull of the model. A pull that is being cancelled ends first. */
  private async join(input: PullInput, client: string): Promise<Entry> {
    const task = this.options.puller.read(input);
    for (
      let known = this.entries.get(task.key);
      known !== undefined;
      known = this.entries.get(task.key)
    ) {
      const instance = await this.unlessStalled(known.instance);
      if (isIn(instance.tail, 'cancelling') || instance.tail.status !== 'active')
        await this.unlessStalled(this.awaitEnd(known));
      else {
        known.followers += 1;
        return known;
      }
    }
    return this.admit(task, client);
  }

  private admit(task: PullTask, client: string): Entry {
    const { limits } = this.options;
    this.refuseUnlessReady();
    if (this.entries.size >= limits.pulls) {
      throw new SvcError(
        'busy',
        `The daemon downloads ${this.entries.size} models already, as many as it may at one time.`,
        { hint: 'Wait for one to end, or raise the limit pulls.' },
      );
    }
    const id = newPullId();
    const entry: Entry = {
      id,
      key: task.key,
      followers: 1,
      instance: this.begin(id, task, client),
    };
    this.entries.set(task.key, entry);
    entry.instance.catch(() => this.release(entry));
    return entry;
  }

  private async begin(pull_id: string, task: PullTask, client: string): Promise<PullInstance> {
    const { kernel, puller, limits } = this.options;
    const key = this.stream(pull_id);
    puller.accept(pull_id, task);
    const { pull_failures: failure_limit, pull_idle_ms: idle_ms, cancel_grace_ms } = limits;
    const recorded = kernel.append([
      {
        stream: key,
        event: {
          type: 'pull.requested',
          pull_id,
          reference: task.shown,
          client,
          failure_limit,
          idle_ms,
          cancel_grace_ms,
        },
      },
    ]);
    const instance = kernel.instance(key);
    await recorded;
    return instance as PullInstance;
  }

  private async *follow(instance: PullInstance, signal: AbortSignal): AsyncIterable<PullRecord> {
    for (let seen = 0; !signal.aborted; ) {
      if (instance.version === seen && instance.snapshot.status === 'active')
        await instance.next(signal);
      seen = instance.version;
      const snapshot = instance.snapshot;
      if (this.options.kernel.closed && snapshot.status === 'active')
        throw new SvcError('daemon_stopping');
      const error = pullError(snapshot);
      if (error !== null) throw error;
      if (signal.aborted) return;
      const { puller } = this.options;
      yield pullRecord(snapshot, await this.model(snapshot), (bytes) => puller.fit(bytes));
      if (snapshot.status !== 'active') return;
    }
  }

  private async model(snapshot: PullSnapshot): Promise<ModelRecord | null> {
    const { path } = snapshot.context;
    if (path === null || !isIn(snapshot, 'completed')) return null;
    const model = await this.options.modelAt(path);
    if (model === null)
      throw new SvcError(
        'model_invalid',
        'The model was downloaded, but is no longer in the models folder.',
      );
    return model;
  }

  private async requestCancel(entry: Entry, by: string): Promise<void> {
    await entry.instance.catch(() => undefined);
    await this.options.kernel
      .tryAppend(this.stream(entry.id), { type: 'pull.cancel_requested', by })
      .catch((error: unknown) => {
        this.options.log.error(
          { err: error, pull_id: entry.id },
          'the cancel of a pull could not be recorded',
        );
      });
  }

  /** Resolves when the work of the pull has stopped. Throws daemon_stopping. */
  private async awaitEnd({ id, instance }: Entry): Promise<void> {
    await instance;
    await this.options.kernel.waitFor(this.stream(id), ({ status }) => status !== 'active');
  }

  private refuseUnlessReady(): void {
    const { kernel } = this.options;
    if (kernel.stalled !== null) throw kernel.stalled;
    const daemon = kernel.tail(this.options.daemon);
    const code = refusal(daemon);
    // A full queue of runs is no reason to refuse a pull.
    if (code !== null && code !== 'busy') throw new SvcError(code);
  }

  private unlessStalled<T>(work: Promise<T>): Promise<T> {
    return rejectWhenStalled(this.options.kernel, () => work);
  }

  private forget(key: PullKey, { context }: PullSnapshot): void {
    const { kernel } = this.options;
    const { pull_id } = context;
    for (const entry of [...this.entries.values()]) if (entry.id === pull_id) this.release(entry);
    kernel.forget(key);
  }

  private release(entry: Entry): void {
    this.entries.delete(entry.key);
    this.options.puller.release(entry.id);
  }

  private stream(pull_id: string): PullKey {
    return stream.pull(pull_id, this.options.boot_id);
  }
}
