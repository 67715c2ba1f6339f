import { usedCpuMs } from '../async/timers.ts';
import { type ErrorSummary, SvcError } from '../errors.ts';
import type { Rendering } from './protocol/messages.ts';

/**
 * Watches a thread that renders a third-party template, which nothing can interrupt. It calls back
 * once the process has used more processor time than that may take, or much more memory. Nothing
 * else computes meanwhile.
 */
export class RenderWatch {
  private readonly onExcess: (id: number | null, error: ErrorSummary) => void;
  private timer: NodeJS.Timeout | undefined;

  constructor(onExcess: (id: number | null, error: ErrorSummary) => void) {
    this.onExcess = onExcess;
  }

  begin({ id, ms }: Omit<Rendering, 'type'>): void {
    const until = usedCpuMs() + ms;
    const most = process.memoryUsage.rss() + BYTES_MAX;
    this.timer = setInterval(() => {
      const isLarge = process.memoryUsage.rss() > most;
      if (!isLarge && usedCpuMs() <= until) return;
      this.end();
      this.onExcess(id, (isLarge ? tooLarge() : tooLong(ms)).summary());
    }, LOOK_MS);
  }

  end(): void {
    clearInterval(this.timer);
  }
}

const LOOK_MS = 20;
const BYTES_MAX = 512 * 1024 * 1024;
const WORK = 'Rendering the chat template of the model took';
const HINT = 'Name another template for the model in model_templates, or try another model.';

function tooLong(ms: number): SvcError {
  const message = `${WORK} longer than ${ms} ms of CPU time.`;
  return new SvcError('engine_timed_out', message, { hint: HINT, retryable: false });
}

function tooLarge(): SvcError {
  const message = `${WORK} more than ${BYTES_MAX / 1024 / 1024} MiB of memory.`;
  return new SvcError('engine_crashed', message, { hint: HINT, retryable: false });
}
