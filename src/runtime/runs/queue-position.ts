import type { Scheduler } from './scheduler.ts';

/**
 * Calls with the position of a run in the queue, now and at each change, until the returned function is called.
 * The last call has null: the run waits no more.
 */
export function watchQueue(
  scheduler: Scheduler,
  run_id: string,
  listener: (position: number | null) => void,
): () => void {
  const watching = new AbortController();
  let last: number | null | undefined;
  const look = () => {
    const position = scheduler.position(run_id);
    if (position === last) return;
    last = position;
    if (position === null) watching.abort();
    listener(position);
  };
  scheduler.onMove(look, watching.signal);
  look();
  return () => watching.abort();
}
