import type { Scheduler } from './scheduler.ts';

/**
 * Calls the listener with the position of a run in the queue, now and at each change. The last call
 * has null: the run has left the queue. The returned function ends the watch.
 */
export function watchQueue(
  scheduler: Scheduler,
  run_id: string,
  listener: (position: number | null) => void,
): () => void {
  const watching = new AbortController();
  let last: number | null | undefined;
  const update = () => {
    const position = scheduler.position(run_id);
    if (position === last) return;
    last = position;
    if (position === null) watching.abort();
    listener(position);
  };
  scheduler.onMove(update, watching.signal);
  update();
  return () => watching.abort();
}
