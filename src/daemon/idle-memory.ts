import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Gives memory back when the daemon has become idle. The engine of the language collects garbage when it needs space, so that after much
 * work a process that does nothing keeps what it once needed, for ever.
 *
 * 1. It collects only after work, and only when a whole interval had next to none: no request waits for it.
 * 2. It collects once for each time of work.
 */
export function giveMemoryBack(idle_ms: number, collect: () => void = collector()): () => void {
  let before = performance.eventLoopUtilization();
  let worked_ms = 0;
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
  return () => clearInterval(timer);
}

/** An interval with less work than this part of it is idle. */
const IDLE_SHARE = 0.05;
/** Less work than this leaves little behind. */
const WORKED_MS = 500;

/** The flag adds the function to contexts that are made from then on; ours stays as it is. Only the last resort gives the pages back that V8 keeps for later. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  return () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
