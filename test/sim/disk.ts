import { SvcError } from '../../src/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Commit, EventStore, StoredEvent } from '../../src/store/port.ts';

/**
 * The disk that outlives every life: the store in memory behind what can happen to a real one.
 *
 * 1. What is asked is done in the order in which it was asked, and answered in that order: the real store has one thread.
 * 2. What was answered survives a crash. An append that was not answered may have been done or not.
 * 3. A full disk takes a few commits more, from its reserve, then refuses them and changes nothing.
 */

export interface DiskOptions {
  /** Called for each event that has become durable, in order. */
  onDurable(event: StoredEvent): void;
  /** A commit was refused, since it does not continue what is stored. */
  onConflict(error: Error): void;
  /** For a planted bug: the last commit is lost when there is a crash. */
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

  /** Does what was asked first, and answers it. */
  step(): void {
    void this.asked.shift()?.perform();
  }

  /** The first append fails, and nobody can say whether it was done. False when none waits. */
  failAppend(done: boolean): boolean {
    const append = this.asked.find(({ does }) => does === 'append');
    if (append === undefined) return false;
    this.asked = this.asked.filter((other) => other !== append);
    if (done && append.commit !== null) this.write(append.commit).catch(() => {});
    append.refuse(new SvcError('store_failed', 'An injected failure of the disk.'));
    return true;
  }

  /** Everything that was not answered is gone, but for the append that was in progress, if it was done. */
  crash(done: boolean): void {
    const [first] = this.asked;
    if (done && first?.does === 'append' && first.commit !== null && !this.refuses())
      this.write(first.commit).catch(() => {});
    this.asked = [];
    if (this.options.losesLast) this.loseLast();
  }

  /** The store as one life sees it: once that life is over, nothing it asks is done. */
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

  /** The whole log, as it is on disk. */
  async read(): Promise<StoredEvent[]> {
    await this.inner.open();
    return this.inner.readAll(1, Number.MAX_SAFE_INTEGER);
  }

  private async append(commit: Commit): Promise<{ full: boolean }> {
    if (this.refuses()) throw new SvcError('store_full');
    if (this.full) this.reserve -= 1;
    await this.write(commit);
    return { full: this.full };
  }

  private refuses(): boolean {
    return this.full && this.reserve === 0;
  }

  private refill(): boolean {
    if (!this.full) this.reserve = RESERVE;
    return !this.full;
  }

  /** The store in memory does at once what it is asked. */
  private async write(commit: Commit): Promise<void> {
    const written = this.inner.append(commit);
    if (this.options.losesLast) this.commits.push(commit);
    try {
      await written;
    } catch (error) {
      this.options.onConflict(error as Error);
      throw error;
    }
    for (const event of commit.events) this.options.onDurable(event);
  }

  private loseLast(): void {
    this.commits.pop();
    this.inner = createMemoryStore();
    void this.inner.open();
    for (const commit of this.commits) void this.inner.append(commit);
  }
}
