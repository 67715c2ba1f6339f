import type { ReportRecord } from '../../contract/contract.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Scheduler } from '../runs/scheduler.ts';
import { EventTallies } from './event-tallies.ts';
import { ProcessFigures } from './process-families.ts';
import { stateFamilies } from './state-families.ts';
import type { Family } from './tally.ts';

export interface MetricsOptions {
  kernel: Kernel;
  scheduler: Scheduler;
  report(): ReportRecord;
  ready(): boolean;
  followers(): number;
}

/**
 * The figures for monitoring, in the text format of Prometheus. They come from the events and from
 * the state of the machines. No other part counts for them.
 *
 * The first scrape loads the library. A daemon that no program monitors pays only for the tallies.
 */
export class Metrics {
  private readonly options: MetricsOptions;
  private readonly tallies: EventTallies;
  private readonly process = new ProcessFigures();

  constructor(options: MetricsOptions) {
    this.options = options;
    this.tallies = new EventTallies(options.kernel);
  }

  /** `more`: figures of a transport. */
  async text(more: readonly Family[]): Promise<string> {
    const { formatFamilies } = await import('./format.ts');
    return formatFamilies([...this.families(), ...more]);
  }

  private families(): Family[] {
    const { kernel, scheduler, report, ready, followers } = this.options;
    const accepted = scheduler.waitingRuns().flatMap((run) => {
      const at = kernel.snapshot(run)?.context.created_at;
      return at === undefined ? [] : [at];
    });
    return [
      ...stateFamilies({
        report: report(),
        ready: ready(),
        oldest_waiting_at: accepted.length === 0 ? null : accepted.reduce((a, b) => Math.min(a, b)),
        followers: followers(),
        stalled: kernel.stalled !== null,
        now: kernel.clock.now(),
      }),
      ...this.tallies.families(),
      ...this.process.families(),
    ];
  }
}
