import type { Clock } from '../../async/clock.ts';
import type { EventStore, VerifiedReport } from '../../kernel/store/port.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';

export interface VerificationOptions {
  store: Pick<EventStore, 'verifyPart' | 'verified'>;
  clock: Clock;
  limits: Pick<Limits, 'verify_every_ms' | 'verify_pause_ms' | 'verify_start_bytes'>;
  log: Log;
  /** Bytes of the log files. */
  size(): number;
  /** Whether this daemon checks the log. In a fleet one node is enough. */
  isMine(): Promise<boolean>;
}

/**
 * Checks the whole log while the daemon runs, in rounds of small parts with pauses. It owns the
 * latest report of damage.
 *
 * 1. A round that a stop interrupts continues after the next start. A small log gets a new round at
 *    each start instead.
 * 2. The next round begins `verify_every_ms` after the last one ended.
 * 3. Only one part is checked at a time.
 * 4. A part that fails is logged. The next round still comes.
 * 5. Of a fleet, one node checks the log. Another node begins a round if that node is gone.
 */
export class Verification {
  /** Null until the daemon is ready. */
  report: VerifiedReport | null = null;
  private readonly options: VerificationOptions;
  private readonly closing = new AbortController();
  private restart = false;
  private checking: Promise<void> = Promise.resolve();

  constructor(options: VerificationOptions) {
    this.options = options;
  }

  /** Begins when the daemon is ready. */
  async start(): Promise<void> {
    const { store, limits, size } = this.options;
    this.report = await store.verified();
    this.restart = size() <= limits.verify_start_bytes;
    const isDue = this.restart || this.report.at === null || !this.report.complete;
    this.schedule(isDue ? limits.verify_pause_ms : limits.verify_every_ms);
  }

  /** Resolves when the part in progress is done. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.checking;
  }

  private schedule(ms: number): void {
    const check = () => {
      this.checking = this.proceed();
    };
    this.options.clock.after(ms, check, this.closing.signal);
  }

  private async proceed(): Promise<void> {
    const { verify_pause_ms, verify_every_ms } = this.options.limits;
    const done = await this.checkPart();
    if (done) this.restart = true;
    this.schedule(done ? verify_every_ms : verify_pause_ms);
  }

  private async checkPart(): Promise<boolean> {
    const { store, clock, log, isMine } = this.options;
    const before = this.report?.damaged ?? 0;
    const restart = this.restart;
    this.restart = false;
    try {
      if (!(await isMine())) return true;
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
