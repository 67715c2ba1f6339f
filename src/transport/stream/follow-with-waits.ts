import type { EventSlice, RunFollowing, RunWait, Sized } from '../../contract/contract.ts';
import type { Runtime } from '../../runtime/port.ts';

/**
 * The events of a run, and meanwhile what it waits for: its place in the queue, and how far its
 * model is loaded. The first events say that it waits, so nothing is reported before they are sent.
 * A stream that continues after them gets it at once.
 */
export async function* followWithWaits<B extends Sized>(
  runtime: Pick<Runtime, 'runs' | 'queue' | 'loads'>,
  id: string,
  following: RunFollowing<B> & { from_seq: number },
  report: (wait: RunWait) => unknown,
): AsyncGenerator<EventSlice<B>, void> {
  const over = new AbortController();
  let endLoads = () => {};
  let isWatching = false;
  const watch = () => {
    isWatching = true;
    const placed = (queue_position: number | null) =>
      queue_position === null || void report({ queue_position });
    runtime.queue.watch(id, placed, over.signal);
    endLoads = runtime.loads.watch(id, (loading) => void report({ loading }));
  };
  if (following.from_seq > (await runtime.runs.head(id)).seq) watch();
  try {
    for await (const slice of runtime.runs.follow(id, following)) {
      yield slice;
      if (!isWatching) watch();
      // A model that answers is loaded.
      if (slice.events.some(({ type }) => type === 'run.output_appended')) endLoads();
    }
  } finally {
    over.abort(OVER);
    endLoads();
  }
}

/** An abort without a reason would make a new error with its stack for each follower. */
const OVER = new Error('The follower has left.');
