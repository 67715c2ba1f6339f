import { pause } from '../../async/clock.ts';
import { hasCode } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore, PruneQuery, PruneReport } from '../../kernel/store/port.ts';
import { type DaemonKey, isRun } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';

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
 * Keeps the history and the sums of usage within their bounds: a round at the start, then one
 * every `prune_every_ms`.
 *
 * 1. A round works in small steps, and commits pass between them.
 * 2. After a clock jump, age-based pruning is skipped for an hour: one boot with a wrong clock
 *    deletes no recent history.
 * 3. The store gets the time of the last clock jump: a run from a wrong clock does not count as
 *    old.
 * 4. A round that removed runs appends one event. A round that failed is logged, and the next one
 *    runs.
 */
export class Retention {
  private readonly options: RetentionOptions;
  private readonly closing = new AbortController();
  /** The time of the last round. */
  private lastSeenAt: number | null = null;
  private clockJumpedAt = Number.NEGATIVE_INFINITY;
  /** The clock has not jumped in this boot since then. */
  private even_since: number | null = null;
  /** Why the last round could not write the write-ahead log back; null when it could. */
  trouble: string | null = null;
  /** Runs that are removed, while no event says so. */
  unrecorded = 0;
  /** As it was in the last round: since then each event of that time is in the log. */
  private living: Required<PruneQuery>['living'] | null = null;
  /** The warnings of the last round. */
  private warned = '';
  private round: Promise<void> = Promise.resolve();

  constructor(options: RetentionOptions) {
    this.options = options;
  }

  /** The daemon is ready. */
  start(): void {
    if (this.closing.signal.aborted) return;
    this.round = this.prune()
      .catch((error: unknown) => this.report(error))
      .then(() => this.scheduleRound());
  }

  /** Resolves when no step is running. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.round;
  }

  private scheduleRound(): void {
    const { kernel, limits } = this.options;
    kernel.clock.after(limits.prune_every_ms, () => this.start(), this.closing.signal);
  }

  private async prune(): Promise<void> {
    const { kernel, store, daemon, boot_id, keep, limits } = this.options;
    const now = kernel.clock.now();
    const isTrusted = this.isClockTrusted(now);
    const query: PruneQuery = {
      before_at: keep.keep_days === null || !isTrusted ? null : now - keep.keep_days * DAY_MS,
      max_bytes: keep.keep_bytes,
      large_bytes: limits.history_large_bytes,
      young_at: now - limits.history_young_ms,
      clock: { now, even_since: this.even_since ?? now },
      keep_boot: boot_id,
      ...(this.living === null ? {} : { living: this.living }),
      limit: STEP_RUNS,
    };
    const streams = kernel.instances.keys().filter((stream) => !isRun(stream));
    this.living = kernel.stalled === null ? { streams, seq: kernel.durableSeq } : null;
    const removed = { runs: 0, events: 0 };
    try {
      for (let more = true; more && !this.closing.signal.aborted; ) {
        const step = await store.prune(query);
        removed.runs += step.runs;
        this.unrecorded += step.runs;
        removed.events += step.events;
        more = step.more;
        if (!more) this.warn(step);
        // Pending commits pass.
        await pause(kernel.clock, STEP_PAUSE_MS, this.closing.signal);
      }
    } finally {
      if (removed.events > 0) {
        const event = { type: 'daemon.history_pruned', ...removed } as const;
        if (await kernel.tryAppend(daemon, event)) this.unrecorded -= removed.runs;
      }
    }
  }

  /** Rounds are minutes apart, and a boot mostly begins soon after the last one. */
  private isClockTrusted(now: number): boolean {
    const { kernel, daemon } = this.options;
    const before = this.lastSeenAt ?? kernel.snapshot(daemon)?.context.last_boot?.at ?? now;
    if (now - before > CLOCK_JUMP_MS) this.clockJumpedAt = now;
    if (this.even_since === null || now - before > CLOCK_JUMP_MS) this.even_since = now;
    this.lastSeenAt = now;
    return now - this.clockJumpedAt >= CLOCK_DISTRUST_MS;
  }

  /** Logs each warning once, until the warnings change. */
  private warn({ over, trouble }: PruneReport): void {
    this.trouble =
      trouble === undefined
        ? null
        : 'The write-ahead log cannot be written back into the event log, and grows until ' +
          `it can: ${trouble}`;
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

  /** The disk monitor reports a full disk. */
  private report(error: unknown): void {
    if (hasCode(error, 'store_full')) return;
    this.options.log.error({ err: error }, 'history could not be removed');
  }
}

const DAY_MS = 86_400_000;
/** A longer time between two rounds or boots is a clock jump. */
const CLOCK_JUMP_MS = DAY_MS;
const CLOCK_DISTRUST_MS = 3_600_000;
const STEP_RUNS = 50;
const STEP_PAUSE_MS = 5;
