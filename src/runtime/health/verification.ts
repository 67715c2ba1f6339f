import type { Clock } from '../../kernel/clock.ts';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { EventStore, VerifiedReport } from '../../store/port.ts';

export interface VerificationOptions {
  store: Pick<EventStore, 'verifyPart' | 'verified'>;
  clock: Clock;
  limits: Pick<Limits, 'verify_every_ms' | 'verify_pause_ms' | 'verify_start_bytes'>;
  log: Log;
  /** Bytes of the files of the log. */
  size(): number;
}

/**
 * Checks the whole log while the daemon runs, round by round, in small parts with pauses. It owns what is known of damage.
 *
 * 1. A round that a stop cut off goes on where it was. The next one begins `verify_every_ms` after its end, and at each start where the log is small.
 * 2. One part is under way at a time.
 * 3. A part that fails is logged; the next one comes all the same.
 */
export class Verification {
  /** Null until the daemon is ready. */
  report: VerifiedReport | null = null;
  private readonly options: VerificationOptions;
  private callOff = () => {};
  private closed = false;
  private restart = false;
  private under_way: Promise<void> = Promise.resolve();

  constructor(options: VerificationOptions) {
    this.options = options;
  }

  /** The daemon is ready. */
  async start(): Promise<void> {
    const { store, limits, size } = this.options;
    this.report = await store.verified();
    this.restart = size() <= limits.verify_start_bytes;
    const isDue = this.restart || this.report.at === null || !this.report.complete;
    this.later(isDue ? limits.verify_pause_ms : limits.verify_every_ms);
  }

  /** Resolves when no part is under way any more. */
  async close(): Promise<void> {
    this.closed = true;
    this.callOff();
    await this.under_way;
  }

  private later(ms: number): void {
    if (this.closed) return;
    this.callOff = this.options.clock.after(ms, () => {
      this.under_way = this.goOn();
    });
  }

  private async goOn(): Promise<void> {
    const { verify_pause_ms, verify_every_ms } = this.options.limits;
    const done = await this.checkPart();
    if (done) this.restart = true;
    this.later(done ? verify_every_ms : verify_pause_ms);
  }

  private async checkPart(): Promise<boolean> {
    const { store, clock, log } = this.options;
    const before = this.report?.damaged ?? 0;
    const restart = this.restart;
    this.restart = false;
    try {
      const { done, report } = await store.verifyPart(clock.now(), restart);
      this.report = report;
      if (report.damaged > before)
        log.error({ code: 'store_corrupt', problems: report.problems }, 'the event log is damaged');
      return done;
    } catch (error) {
      log.warn({ err: error }, 'a part of the event log could not be checked');
      return true;
    }
  }
}
