import { SvcError } from '../../src/errors.ts';
import type { AppendResult, Commit, EventStore, StoredEvent } from '../../src/kernel/store/port.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';

/**
 * The disk that survives each boot: the memory store with the faults of a real disk.
 *
 * 1. Calls run and return in their order, since the real store has one thread.
 * 2. A crash keeps what was acknowledged. An unacknowledged append may be done or not.
 * 3. A full disk accepts a few commits from its reserve, then refuses and changes nothing.
 */

export interface DiskOptions {
  /** Called for each durable event, in order. */
  onDurable(event: StoredEvent): void;
  /** A commit was refused because it does not continue the log. */
  onConflict(error: Error): void;
  /** For a planted bug: a crash loses the last commit. */
  losesLast?: boolean;
}

interface Asked {
  does: 'append' | 'read';
  perform(): Promise<unknown>;
  refuse(error: unknown): void;
  commit: Commit | null;
}

/** Commits that the reserve takes. */
const RESERVE = 4;

export class Disk {
  full = false;
  private inner: EventStore = createMemoryStore();
  private readonly options: DiskOptions;
  private asked: Asked[] = [];
  private reserve = RESERVE;
  private readonly commits: Commit[] = [];

  constructor(options: DiskOptions) {
    this.options = options;
  }

  get waiting(): number {
    return this.asked.length;
  }

  get appendWaits(): boolean {
    return this.asked.some(({ does }) => does === 'append');
  }

  /** Runs the first call, and answers it. */
  step(): void {
    void this.asked.shift()?.perform();
  }

  /** Fails the first append with an unknown outcome. False if none waits. */
  failAppend(done: boolean): boolean {
    const append = this.asked.find(({ does }) => does === 'append');
    if (append === undefined) return false;
    this.asked = this.asked.filter((other) => other !== append);
    if (done && append.commit !== null) this.write(append.commit).catch(() => {});
    append.refuse(new SvcError('store_failed', 'An injected failure of the disk.'));
    return true;
  }

  /** Drops all unanswered calls, except perhaps the append in progress. */
  crash(done: boolean): void {
    const [first] = this.asked;
    if (done && first?.does === 'append' && first.commit !== null && !this.refuses())
      this.write(first.commit).catch(() => {});
    this.asked = [];
    if (this.options.losesLast) this.loseLast();
  }

  /** The store of one boot. After the boot, its calls do nothing. */
  connect(alive: () => boolean): EventStore {
    const ask = <T>(perform: () => Promise<T>, commit: Commit | null = null): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        if (!alive()) return;
        this.asked.push({
          does: commit === null ? 'read' : 'append',
          perform: () => perform().then(resolve, reject),
          refuse: reject,
          commit,
        });
      });
    const { inner } = this;
    const methods = Object.entries(inner) as [string, (...query: unknown[]) => Promise<unknown>][];
    const asked = Object.fromEntries(
      methods.map(([name, method]) => [name, (...query: unknown[]) => ask(() => method(...query))]),
    );
    return {
      ...(asked as unknown as EventStore),
      open: () =>
        ask(async () => ({ ...(await inner.open()), full: this.full && this.reserve === 0 })),
      append: (commit) => ask(() => this.append(commit), commit),
      reserve: () => ask(async () => this.refill()),
      close: () => ask(() => Promise.resolve()),
    };
  }

  /** The whole log on disk. */
  async read(): Promise<StoredEvent[]> {
    await this.inner.open();
    return this.inner.readAll(1, Number.MAX_SAFE_INTEGER);
  }

  private async append(commit: Commit): Promise<AppendResult> {
    if (this.refuses()) throw new SvcError('store_full');
    if (this.full) this.reserve -= 1;
    return { ...(await this.write(commit)), full: this.full };
  }

  private refuses(): boolean {
    return this.full && this.reserve === 0;
  }

  private refill(): boolean {
    if (!this.full) this.reserve = RESERVE;
    return !this.full;
  }

  /** The memory store answers at once. */
  private async write(commit: Commit): Promise<AppendResult> {
    const written = this.inner.append(commit);
    if (this.options.losesLast) this.commits.push(commit);
    try {
      await written;
    } catch (error) {
      this.options.onConflict(error as Error);
      throw error;
    }
    for (const event of commit.events) this.options.onDurable(event);
    return written;
  }

  private loseLast(): void {
    this.commits.pop();
    this.inner = createMemoryStore();
    void this.inner.open();
    for (const commit of this.commits) void this.inner.append(commit);
  }
}
