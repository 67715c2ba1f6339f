import type { EventSlice } from '../runtime/contract.ts';
import type { Runtime } from '../runtime/port.ts';

/**
 * The events of a run, and meanwhile its place in the queue. The first events say what waits, so
 * no place is reported before they are sent. A stream that continues after them gets it at once.
 */
export async function* followWithPlaces(
  runtime: Pick<Runtime, 'runs' | 'queue'>,
  id: string,
  following: { from_seq: number; signal: AbortSignal },
  report: (queue_position: number) => unknown,
): AsyncGenerator<EventSlice, void> {
  const over = new AbortController();
  const watch = () =>
    runtime.queue.watch(id, (place) => place === null || void report(place), over.signal);
  let isWatching = following.from_seq > (await runtime.runs.head(id)).seq;
  if (isWatching) watch();
  try {
    for await (const slice of runtime.runs.follow(id, following)) {
      yield slice;
      if (!isWatching) watch();
      isWatching = true;
    }
  } finally {
    over.abort(OVER);
  }
}

/** An abort without a reason would make a new error with its stack for each follower. */
const OVER = new Error('The follower has left.');
