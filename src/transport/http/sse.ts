import { isTerminalEvent } from '../../../machines/run/context.ts';
import type { RunWait } from '../../contract/contract.ts';
import { fromBody } from '../../errors.ts';
import { followWithWaits, serverSentEvents } from '../stream/event-forms.ts';
import { cutReasonOf, sendLive } from '../stream/live.ts';
import type { Context } from './route.ts';

/**
 * Streams a run's events from a position to its terminal event. `id:` is the position in the log,
 * so that Last-Event-ID resumes. A stream without a terminal event ends with an event
 * `stream.closed`, which says why and has no id.
 *
 * A page of events is read when the last one is sent. Nothing is read ahead of the client.
 *
 * `asks`: the request asks for the answer, so an error of the run is an error of the stream. A
 * request that only reads the events is complete when it has them all.
 */
export async function streamRun(
  context: Context,
  run_id: string,
  { from_seq, asks }: { from_seq: number; asks: boolean },
): Promise<void> {
  const { runtime } = context;
  await streamEvents(context, run_id, async ({ signal, outflow, write, offer }) => {
    const report = (wait: RunWait) => offer(waitText(wait));
    let isOver = false;
    const form = serverSentEvents;
    const following = { form, from_seq, signal, ready: () => outflow.reserve() };
    for await (const { page, events } of followWithWaits(runtime, run_id, following, report)) {
      const { body } = page;
      outflow.hold(body);
      await write(body.bytesOf(events));
      outflow.release(body);
      isOver = isTerminalEvent(events.at(-1)?.type ?? '');
    }
    if (!isOver)
      throw cutReasonOf(
        context,
        'The daemon stops. Continue with Last-Event-ID after its next start.',
      );
    const { error } = asks ? await runtime.runs.get(run_id) : { error: null };
    return error === null ? null : fromBody(error);
  });
}

/** Without a run its events are of the daemon. */
export function streamEvents(
  context: Context,
  run_id: string | null,
  work: Parameters<typeof sendLive>[2],
): Promise<void> {
  return sendLive(
    context,
    {
      type: 'text/event-stream',
      run_id,
      heartbeat: ': \n\n',
      begin: 'now',
      failure: (error) =>
        `event: stream.closed\ndata: ${JSON.stringify({ error: error.body() })}\n\n`,
    },
    work,
  );
}

/** The state of a waiting run. It is not an event of the log, so it has no id. */
function waitText(wait: RunWait): string {
  const [name, data] =
    'loading' in wait ? ['model.loading', wait.loading] : ['queue.position', wait];
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
