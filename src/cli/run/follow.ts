import type { ControlClient } from '../../control/client.ts';
import type { Results } from '../../control/results.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../paths.ts';
import { connectDaemon } from '../connect-daemon.ts';

export type Run = Results['run.get'];

export interface Following {
  paths: Paths;
  /** A run to start, with its idempotency key, or one that is there, from a position of the log on. */
  what: { start: Record<string, unknown> & { idempotency_key: string } } | { id: string; from_seq: number };
  /** Cancels the run when it aborts; its end is waited for all the same. */
  cancel: AbortSignal;
  /** Leaves the run to itself when it aborts. */
  leave?: AbortSignal;
  steps: Steps;
  /** Brings the daemon back after it died, and resolves when it takes runs; null: it is only waited for. */
  revive: (() => Promise<void>) | null;
}

export interface Steps {
  accepted?(run: Run): void;
  output(text: string): Promise<void> | undefined;
  /** What was delivered so far counts no more: the run is asked again from its beginning. */
  discarded(): void;
  waiting?(position: number): void;
  /** The daemon is gone: it is waited for. */
  away(): void;
}

/**
 * A run followed to its end, over as many connections as it takes.
 *
 * 1. Each event is taken once, in order: after a break it goes on behind the last one that was taken.
 * 2. A start whose answer was lost is sent again with the same key, so that there is one run.
 * 3. A daemon that died is brought back; one that was stopped is waited for, and not started against the will of who stopped it;
 *    for a run that is there already, one that did not answer to begin with is not started either.
 * 4. A daemon that dies again and again without a new event between is given up.
 * Throws what the daemon answers, daemon_not_running, and run_interrupted when it does not come back.
 */
export async function followRun(following: Following): Promise<Run> {
  const { what, paths, steps, revive } = following;
  const place: Place = 'start' in what ? { id: null, next_seq: 0 } : { id: what.id, next_seq: what.from_seq };
  // Whoever starts a run has just seen to it that a daemon is there.
  let met = 'start' in what;
  for (let breaks = 0; ; breaks += 1) {
    const before = place.next_seq;
    try {
      const client = await connectDaemon(paths);
      met = true;
      try {
        return await hear(client, place, following);
      } finally {
        client.close();
      }
    } catch (error) {
      if (place.next_seq > before) breaks = 0;
      if (!(error instanceof SvcError) || !met || following.leave?.aborted || !isBreak(error, place) || breaks >= BREAKS_MAX) throw withHint(error, place);
      if (breaks === 0) steps.away();
      if (error.code === 'daemon_stopping' || revive === null) await untilBack(following, place);
      else await revive();
    }
  }
}

interface Place {
  /** Null until the daemon has given the run one. */
  id: string | null;
  /** The first event that was not taken. */
  next_seq: number;
}

const BREAKS_MAX = 5;
/** For a daemon that was stopped to be started again by whoever stopped it: a restart. */
const RETURN_MS = 15_000;
const POLL_MS = 100;
/** Above the longest grace that the daemon can be configured to give the work. */
const CANCEL_MS = 660_000;

async function hear(client: ControlClient, place: Place, { what, cancel, leave, steps }: Following): Promise<Run> {
  const options = leave === undefined ? {} : { signal: leave };
  const stream =
    'start' in what && place.id === null
      ? client.stream('run.start', { ...what.start, stream: true }, options)
      : client.stream('run.follow', { id: place.id, from_seq: place.next_seq }, options);
  const cancelRun = () => place.id !== null && void client.call('run.cancel', { id: place.id }, { timeout_ms: CANCEL_MS }).catch(() => {});
  cancel.addEventListener('abort', cancelRun);
  try {
    if (cancel.aborted) cancelRun();
    for await (const event of stream) {
      if ('run' in event) {
        place.id = event.run.id;
        if (cancel.aborted) cancelRun();
        steps.accepted?.(event.run);
      } else if ('queue_position' in event) {
        steps.waiting?.(event.queue_position);
      } else {
        if (event.type === 'run.started' && event.data.resumes !== true && event.data.attempt !== 1) steps.discarded();
        if (event.type === 'run.output_appended') await steps.output(String(event.data.text ?? ''));
        place.next_seq = event.seq + 1;
      }
    }
    return await stream.result;
  } finally {
    cancel.removeEventListener('abort', cancelRun);
  }
}

/** A run that is known can be followed later. */
function withHint(error: unknown, { id }: Place): unknown {
  if (id === null || !(error instanceof SvcError) || error.code !== 'connection_lost') return error;
  return new SvcError('connection_lost', error.message, { cause: error.cause, hint: `Run: svc start, then svc runs attach ${id}` });
}

/** Whether the run may go on behind this: the daemon died, was stopped, or is starting. */
function isBreak({ code }: SvcError, { id }: Place): boolean {
  return code === 'connection_lost' || code === 'daemon_not_running' || ((code === 'not_ready' || code === 'daemon_stopping') && id !== null);
}

async function untilBack({ paths }: Following, { id }: Place): Promise<void> {
  for (const end = performance.now() + RETURN_MS; performance.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const client = await connectDaemon(paths).catch(() => null);
    const health = await client?.call('health').catch(() => null);
    client?.close();
    if (health?.ready) return;
  }
  throw new SvcError('run_interrupted', 'The daemon is gone, and did not come back in time; the run goes on when it is started again.', {
    hint: id === null ? 'Run: svc start, then the command again' : `Run: svc start, then svc runs attach ${id}`,
  });
}
