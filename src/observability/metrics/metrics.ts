import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { ReportRecord } from '../../contract/contract.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Scheduler } from '../../runtime/runs/scheduler.ts';
import { memoryUse } from '../health/memory-use.ts';
import { EventTallies } from './event-tallies.ts';
import { type Family, gauge } from './tally.ts';

export interface MetricsOptions {
  kernel: Kernel;
  scheduler: Scheduler;
  report(): ReportRecord;
  ready(): boolean;
  followers(): number;
}

/**
 * The figures for monitoring, in the text format of Prometheus. They come only from the events and
 * from the state of the machines.
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

/**
 * The resource usage of the process. It owns the measurement of the event loop, which begins with
 * the first scrape: it wakes the process many times a second.
 */
class ProcessFigures {
  private delay: IntervalHistogram | null = null;

  families(): Family[] {
    const { rss_bytes, heap_used_bytes } = memoryUse();
    const { user, system } = process.cpuUsage();
    return [
      gauge('svc_memory_bytes', 'Memory of the daemon without the engine, by kind.', [
        [{ kind: 'resident' }, rss_bytes],
        [{ kind: 'heap_used' }, heap_used_bytes],
      ]),
      {
        name: 'svc_cpu_seconds_total',
        help: 'Processor time of the daemon without the engine.',
        type: 'counter',
        values: [{ labels: {}, value: (user + system) / 1_000_000 }],
      },
      gauge('svc_uptime_seconds', 'Age of the process.', [[{}, process.uptime()]]),
      this.loopDelay(),
    ];
  }

  /** Since the last scrape. */
  private loopDelay(): Family {
    const { delay } = this;
    const seconds = (nanoseconds: number) =>
      Math.max(0, (Number.isFinite(nanoseconds) ? nanoseconds : 0) / 1e9 - RESOLUTION_MS / 1000);
    const values =
      delay === null || delay.count === 0
        ? [0, 0, 0]
        : [delay.percentile(50), delay.percentile(99), delay.max].map(seconds);
    if (delay === null) {
      this.delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      this.delay.enable();
    }
    delay?.reset();
    return gauge(
      'svc_loop_delay_seconds',
      'How late the event loop was since the last scrape.',
      ['0.5', '0.99', '1'].map((quantile, index) => [{ quantile }, values[index] ?? 0] as const),
    );
  }

  close(): void {
    this.delay?.disable();
    this.delay = null;
  }
}

const RESOLUTION_MS = 20;

/** The figures that each scrape reads from the state of the machines. */
interface StateSources {
  report: ReportRecord;
  ready: boolean;
  /** When the longest waiting run was accepted. Null without a waiting run. */
  oldest_waiting_at: number | null;
  followers: number;
  stalled: boolean;
  now: number;
}

function stateFamilies(sources: StateSources): Family[] {
  const { report, oldest_waiting_at, now } = sources;
  const { log, engines, queue, runs } = report;
  const one = (name: string, help: string, value: number | null) =>
    gauge(name, help, [[{}, value]]);
  const waited_s = oldest_waiting_at === null ? 0 : Math.max(0, now - oldest_waiting_at) / 1000;
  return [
    gauge('svc_info', 'The version of the daemon.', [[{ version: report.version }, 1]]),
    one('svc_ready', '1 while the daemon accepts runs.', sources.ready ? 1 : 0),
    gauge('svc_state', 'The state of the daemon.', [[{ state: report.state_path }, 1]]),
    gauge('svc_runs', 'Runs in the log, by state.', [
      [{ state: 'active' }, runs.active],
      [{ state: 'queued' }, runs.queued],
      [{ state: 'finished' }, runs.finished],
    ]),
    one('svc_queue_capacity', 'Runs that may be unfinished at one time.', queue.capacity),
    one('svc_queue_oldest_wait_seconds', 'How long the oldest waiting run waits.', waited_s),
    gauge(
      'svc_embeddings',
      'Requests of this boot for embeddings, reranking, speech or images, by state.',
      [
        [{ state: 'active' }, report.embeddings.active],
        [{ state: 'answered' }, report.embeddings.answered],
        [{ state: 'failed' }, report.embeddings.failed],
      ],
    ),
    gauge(
      'svc_provider_state',
      'The state of each provider.',
      report.providers.map(({ id, kind, state }) => [{ provider: id, kind, state }, 1]),
    ),
    gauge(
      'svc_engine_state',
      'The state of each engine with a process, by model.',
      engines.map(({ model, state }) => [{ model: model ?? '', state }, 1]),
    ),
    one('svc_log_position', 'Position of the last durable event.', log.durable_seq),
    one('svc_log_backlog_events', 'Events that wait for their commit.', log.lag),
    one('svc_log_size_bytes', 'Size of the log on disk.', log.size_bytes),
    one('svc_log_damaged', 'Damaged places that the check of the log knows.', log.verified.damaged),
    one('svc_log_stalled', '1 while the disk takes no commits.', sources.stalled ? 1 : 0),
    one('svc_followers', 'Clients that follow a run or the log.', sources.followers),
  ];
}
