import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { memoryUse } from '../health/memory-use.ts';
import { type Family, gauge } from './tally.ts';

/**
 * What the process itself uses. It owns the measurement of the event loop, which begins with the
 * first scrape: it wakes the process many times a second.
 */
export class ProcessFigures {
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
