/**
 * Timers of a process that may be stopped meanwhile, by SIGSTOP or with its machine. A timer that
 * is late itself was stopped with its process. Then what lies in the sockets is read first, so
 * that no answer that came in time counts as late.
 */

/** How late a timer is that was stopped, at least. A busy process only waits a moment longer. */
export const FROZEN_MS = 50;
/** For the sockets to be read after that. */
export const READ_MS = 200;
/** A busy machine may give little of that time: in each turn the sockets are read once. */
const READ_TURNS = 16;

/** The longest delay of a timer. Node.js fires a longer one at once. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** Calls once after `ms`. Returns what cancels it. `isHeld`: the process does not end before. */
export function callAfter(ms: number, call: () => void, isHeld = true): () => void {
  const delay = Math.min(TIMER_MAX_MS, Math.max(0, ms));
  const due = uptimeMs() + delay;
  let isOver = false;
  const start = (fire: () => void, in_ms: number) => {
    const timer = setTimeout(fire, in_ms);
    return isHeld ? timer : timer.unref();
  };
  const callAfterTurns = (turns: number): void => {
    if (isOver) return;
    if (turns === 0) call();
    else setImmediate(callAfterTurns, turns - 1);
  };
  let timer = start(() => {
    if (uptimeMs() - due <= FROZEN_MS) call();
    else timer = start(() => callAfterTurns(READ_TURNS), READ_MS);
  }, delay);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** The monotonic clock, without the module that a quick command would load for it. */
export function uptimeMs(): number {
  return process.uptime() * 1000;
}

/** The processor time that this process has used, in milliseconds. */
export function usedCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** As `AbortSignal.timeout`, for an answer that comes through a socket or a pipe. */
export function timeoutSignal(ms: number): AbortSignal {
  const late = new AbortController();
  callAfter(ms, () => late.abort(new DOMException(LATE, 'TimeoutError')), false);
  return late.signal;
}

const LATE = 'The operation was aborted due to timeout';
