import type { EventSlice, Runtime } from '../runtime/contract.ts';

/**
 * The events of a run, and meanwhile its place in the queue. The first events say what waits, so
 * no place is reported before they are sent. A stream that continues after them gets it at once.
 */
export async function* followWithPlaces(
  runtime: Pick<Runtime, 'followRun' | 'headOfRun' | 'watchQueue'>,
  id: string,
  following: { from_seq: number; signal: AbortSignal },
  report: (queue_position: number) => unknown,
): AsyncGenerator<EventSlice, void> {
  const over = new AbortController();
  const watch = () =>
    runtime.watchQueue(id, (place) => place === null || void report(place), over.signal);
  let isWatching = following.from_seq > (await runtime.headOfRun(id)).seq;
  if (isWatching) watch();
  try {
    for await (const slice of runtime.followRun(id, following)) {
      yield slice;
      if (!isWatching) watch();
      isWatching = true;
    }
  } finally {
    over.abort();
  }
}
