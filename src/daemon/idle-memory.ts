import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Collects garbage when the daemon has become idle, until the signal aborts. V8 collects only when
 * it needs space. Without this, an idle process keeps the memory of its last work.
 *
 * 1. It collects after a whole interval with next to no work, so no request waits for it.
 * 2. It collects once after each time of work. The start of the daemon is one.
 */
export function collectWhenIdle(
  idle_ms: number,
  signal: AbortSignal,
  collect: () => void = collector(),
): void {
  let before = performance.eventLoopUtilization();
  let worked_ms = WORKED_MS;
  const timer = setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { active } = performance.eventLoopUtilization(now, before);
    before = now;
    if (active > idle_ms * IDLE_SHARE) worked_ms += active;
    else if (worked_ms >= WORKED_MS) {
      worked_ms = 0;
      collect();
      before = performance.eventLoopUtilization();
    }
  }, idle_ms);
  timer.unref();
  signal.addEventListener('abort', () => clearInterval(timer));
}

/** An interval is idle below this share of work. */
const IDLE_SHARE = 0.05;
/** Less work than this leaves little garbage. */
const WORKED_MS = 500;

/**
 * The flag adds `gc` only to new contexts, so ours stays as it is. Only a last-resort collection
 * returns spare pages to the system.
 */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  return () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
