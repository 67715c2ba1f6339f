import type { Scheduler } from './scheduler.ts';

/** Calls with the place of a run in the queue, now and at each change; null once it waits no more, which is the last call. Returns the way to stop it. */
export function watchQueue(
  scheduler: Scheduler,
  run_id: string,
  listener: (position: number | null) => void,
): () => void {
  let told: number | null | undefined;
  const look = () => {
    const position = scheduler.position(run_id);
    if (position === told) return;
    told = position;
    if (position === null) stop();
    listener(position);
  };
  const stop = scheduler.onMove(look);
  look();
  return stop;
}
