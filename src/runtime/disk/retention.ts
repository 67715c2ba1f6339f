import { hasCode } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { EventStore, PruneQuery, PruneReport } from '../../store/port.ts';

export interface RetentionOptions {
  kernel: Kernel;
  store: Pick<EventStore, 'prune'>;
  /** Stream of the daemon. */
  daemon: DaemonKey;
  boot_id: string;
  keep: { keep_days: number | null; keep_bytes: number | null };
  limits: Pick<Limits, 'prune_every_ms' | 'history_large_bytes' | 'history_young_ms'>;
  log: Log;
}

/**
 * Keeps the history within its bounds: a round at the start, and then one in each `prune_every_ms`.
 *
 * 1. A round goes in small steps, and commits pass between them.
 * 2. A clock that has leapt is not believed for an hour: one start with a wrong clock must not remove what is not old.
 * 3. The store is given the time since which the clock has run evenly, so that a run from a wrong clock is not taken for an old one.
 * 4. Each round that removed something is one fact. A round that failed is logged, and the next one comes all the same.
 */
export class Retention {
  private readonly options: RetentionOptions;
  private callOff = () => {};
  private goOn = () => {};
  private closed = false;
  /** Of the round before. */
  private seen_at: number | null = null;
  private leapt_at = Number.NEGATIVE_INFINITY;
  /** The clock has not leapt in this boot since then. */
  private even_since: number | null = null;
  /** Why the write-ahead log cannot be written back, as the last round found; null when it can. */
  trouble: string | null = null;
  /** What the last round found to warn of. */
  private warned = '';
  private round: Promise<void> = Promise.resolve();

  constructor(options: RetentionOptions) {
    this.options = options;
  }

  /** The daemon is ready. */
  start(): void {
    const { keep } = this.options;
    if (this.closed || (keep.keep_days === null && keep.keep_bytes === null)) return;
    this.round = this.prune()
      .catch((error: unknown) => this.report(error))
      .then(() => this.later());
  }

  /** Resolves when no step is under way any more. */
  async close(): Promise<void> {
    this.closed = true;
    this.callOff();
    this.goOn();
    await this.round;
  }

  private later(): void {
    if (this.closed) return;
    this.callOff = this.options.kernel.clock.after(this.options.limits.prune_every_ms, () =>
      this.start(),
    );
  }

  private async prune(): Promise<void> {
    const { kernel, store, daemon, boot_id, keep, limits, log } = this.options;
    const now = kernel.clock.now();
    const believed = this.believes(now);
    const query: PruneQuery = {
      before_at: keep.keep_days === null || !believed ? null : now - keep.keep_days * DAY_MS,
      max_bytes: keep.keep_bytes,
      large_bytes: limits.history_large_bytes,
      young_at: now - limits.history_young_ms,
      clock: { now, even_since: this.even_since ?? now },
      keep_boot: boot_id,
      limit: STEP_RUNS,
    };
    const removed = { runs: 0, events: 0 };
    try {
      for (let more = true; more && !this.closed; ) {
        const step = await store.prune(query);
        removed.runs += step.runs;
        removed.events += step.events;
        more = step.more;
        if (!more) this.warn(step);
        await this.pause();
      }
    } finally {
      if (removed.events > 0) {
        log.info(removed, 'history was removed');
        await kernel.tryAppend(daemon, { type: 'daemon.history_pruned', ...removed });
      }
    }
  }

  /** Rounds are minutes apart, and one boot mostly begins where the one before ended. */
  private believes(now: number): boolean {
    const { kernel, daemon } = this.options;
    const before = this.seen_at ?? kernel.snapshot(daemon)?.context.last_boot?.at ?? now;
    if (now - before > LEAP_MS) this.leapt_at = now;
    if (this.even_since === null || now - before > LEAP_MS) this.even_since = now;
    this.seen_at = now;
    return now - this.leapt_at >= BELIEVED_MS;
  }

  /** Once for each thing that is wrong, until it is another or none. */
  private warn({ over, trouble }: PruneReport): void {
    this.trouble =
      trouble === undefined
        ? null
        : `The write-ahead log cannot be written back into the event log, and grows until it can: ${trouble}`;
    const wrong = [
      ...(trouble === undefined
        ? []
        : [
            'the write-ahead log cannot be written back into the event log, and grows until it can',
          ]),
      ...(over === true
        ? ['the event log is larger than history.keep_bytes, and the finished runs in it are young']
        : []),
    ];
    if (wrong.join() !== this.warned)
      for (const sentence of wrong)
        this.options.log.warn(trouble === undefined ? {} : { trouble }, sentence);
    this.warned = wrong.join();
  }

  /** What waits for its commit goes first. */
  private pause(): Promise<void> {
    return new Promise((resolve) => {
      this.goOn = resolve;
      this.callOff = this.options.kernel.clock.after(STEP_PAUSE_MS, resolve);
    });
  }

  /** A full disk is told by others. */
  private report(error: unknown): void {
    if (hasCode(error, 'store_full')) return;
    this.options.log.error({ err: error }, 'history could not be removed');
  }
}

const DAY_MS = 86_400_000;
/** Farther than this from one round, or boot, to the next is a leap. */
const LEAP_MS = DAY_MS;
const BELIEVED_MS = 3_600_000;
const STEP_RUNS = 50;
const STEP_PAUSE_MS = 5;
