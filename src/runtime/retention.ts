import type { DaemonSnapshot } from '../../machines/daemon.ts';
import { SvcError } from '../errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../kernel/port.ts';
import type { Limits } from '../limits.ts';
import type { EventStore } from '../store/store.ts';

export interface RetentionOptions {
  kernel: Kernel;
  store: Pick<EventStore, 'prune'>;
  /** Stream of the daemon. */
  daemon: string;
  boot_id: string;
  keep: { keep_days: number | null; keep_bytes: number | null };
  limits: Pick<Limits, 'prune_every_ms'>;
  log: Log;
}

/**
 * Keeps the history within its bounds: a round at the start, and then one in each `prune_every_ms`.
 *
 * 1. A round goes in small steps, and commits pass between them.
 * 2. A clock that has leapt is not believed for an hour: one start with a wrong clock must not remove what is not old.
 * 3. Each round that removed something is one fact. A round that failed is told in the log, and the next one comes all the same.
 */
export class Retention {
  private readonly options: RetentionOptions;
  private callOff = () => {};
  private goOn = () => {};
  private closed = false;
  /** Of the round before. */
  private seen_at: number | null = null;
  private leapt_at = Number.NEGATIVE_INFINITY;
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
    this.callOff = this.options.kernel.clock.after(this.options.limits.prune_every_ms, () => this.start());
  }

  private async prune(): Promise<void> {
    const { kernel, store, daemon, boot_id, keep, log } = this.options;
    const now = kernel.clock.now();
    const before_at = keep.keep_days === null || !this.believes(now) ? null : now - keep.keep_days * DAY_MS;
    const query = { before_at, max_bytes: keep.keep_bytes, keep_boot: boot_id, limit: STEP_RUNS };
    const removed = { runs: 0, events: 0 };
    try {
      for (let more = true; more && !this.closed; ) {
        const step = await store.prune(query);
        removed.runs += step.runs;
        removed.events += step.events;
        more = step.more;
        await this.pause();
      }
    } finally {
      if (removed.events > 0) {
        log.info(removed, 'history was removed');
        await kernel.submit(daemon, { type: 'daemon.history_pruned', ...removed });
      }
    }
  }

  /** Rounds are minutes apart, and one boot mostly begins where the one before ended. */
  private believes(now: number): boolean {
    const { kernel, daemon } = this.options;
    const before = this.seen_at ?? kernel.snapshot<DaemonSnapshot>(daemon)?.context.last_boot?.at ?? now;
    if (now - before > LEAP_MS) this.leapt_at = now;
    this.seen_at = now;
    return now - this.leapt_at >= BELIEVED_MS;
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
    if (error instanceof SvcError && error.code === 'store_full') return;
    this.options.log.error({ err: error }, 'history could not be removed');
  }
}

const DAY_MS = 86_400_000;
/** Farther than this from one round, or boot, to the next is a leap. */
const LEAP_MS = DAY_MS;
const BELIEVED_MS = 3_600_000;
const STEP_RUNS = 50;
const STEP_PAUSE_MS = 5;
