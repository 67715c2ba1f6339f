import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';

export type Run = Results['run.get'];

export interface Following {
  paths: Paths;
  /** A run to start, with its idempotency key, or one that is there, from a position of the log on. */
  what:
    | { start: Record<string, unknown> & { idempotency_key: string } }
    | { id: string; from_seq: number };
  /** Cancels the run when it aborts; its end is waited for all the same. */
  cancel: AbortSignal;
  /** Leaves the run to itself when it aborts. */
  leave?: AbortSignal;
  steps: Steps;
  /** Brings the daemon back after it died, and resolves when it takes runs; null: it is only waited for. */
  revive: (() => Promise<void>) | null;
  /** From the first loss of the daemon until it is given up, however often it comes back meanwhile; in milliseconds. */
  patience: () => Promise<number>;
}

export interface Steps {
  accepted?(run: Run): void;
  output(text: string): Promise<void> | undefined;
  /** What was delivered so far counts no more: the run is asked again from its beginning. */
  discarded(): void;
  waiting?(position: number): void;
  /** The daemon is gone: it is waited for. */
  away(): void;
  /** It is waited for no longer. */
  back(): void;
}

/**
 * A run followed to its end, over as many connections as it takes.
 *
 * 1. Each event is taken once, in order: after a break it goes on behind the last one that was taken.
 * 2. A start whose answer was lost is sent again with the same key, so that there is one run.
 * 3. A daemon that died is brought back; one that was stopped is waited for, and not started against the will of who stopped it;
 *    for a run that is there already, one that did not answer to begin with is not started either.
 * 4. A daemon that dies again and again is given up: without a new event between after some times, else after the patience. The patience
 *    starts again with a connection that lasted as long as it.
 * Throws what the daemon answers, daemon_not_running, and run_interrupted when it does not come back or does not stay.
 */
export async function followRun(following: Following): Promise<Run> {
  try {
    return await followOver(following);
  } finally {
    following.steps.back();
  }
}

async function followOver(following: Following): Promise<Run> {
  const { what, paths, steps } = following;
  const place: Place =
    'start' in what ? { id: null, next_seq: 0 } : { id: what.id, next_seq: what.from_seq };
  const losses = new Losses(following.patience);
  // Whoever starts a run has just seen to it that a daemon is there.
  let met = 'start' in what;
  for (;;) {
    const before = place.next_seq;
    try {
      const client = await connectDaemon(paths);
      met = true;
      losses.connected();
      steps.back();
      try {
        return await hear(client, place, following);
      } finally {
        client.close();
      }
    } catch (error) {
      if (
        !(error instanceof SvcError) ||
        !met ||
        following.leave?.aborted ||
        !isBreak(error, place)
      )
        throw withHint(error, place);
      await losses.add(error, place, place.next_seq > before);
      steps.away();
      await comeBack(error, following, place, losses);
    }
  }
}

/** Waits for the daemon, or starts it. A start that was killed is one more loss. */
async function comeBack(
  error: SvcError,
  following: Following,
  place: Place,
  losses: Losses,
): Promise<void> {
  const { revive } = following;
  if (error.code === 'daemon_stopping' || revive === null) return untilBack(following, place);
  await revive().catch(async (failure: unknown) => {
    if (!(failure instanceof SvcError) || !isLostStart(failure)) throw failure;
    await losses.add(failure, place, false);
    return comeBack(failure, following, place, losses);
  });
}

/** The daemon died while it was started or asked: by the same hand as before, it may be. */
function isLostStart({ code, details }: SvcError): boolean {
  return (
    code === 'daemon_not_running' ||
    code === 'connection_lost' ||
    (code === 'internal' && details?.signal !== undefined)
  );
}

/** How often, and since when, the daemon was lost. */
class Losses {
  private readonly patience: () => Promise<number>;
  private count = 0;
  private inVain = 0;
  private first: number | null = null;
  private joined: number | null = null;

  constructor(patience: () => Promise<number>) {
    this.patience = patience;
  }

  connected(): void {
    this.joined = performance.now();
  }

  /** Throws what is to be said when there were too many. */
  async add(error: SvcError, place: Place, progress: boolean): Promise<void> {
    const now = performance.now();
    const patience_ms = await this.patience();
    if (this.joined !== null && now - this.joined >= patience_ms)
      [this.first, this.count] = [null, 0];
    this.joined = null;
    this.first ??= now;
    this.count += 1;
    this.inVain = progress ? 0 : this.inVain + 1;
    if (this.inVain > BREAKS_MAX) throw inVain(error, place);
    if (now - this.first < patience_ms) return;
    throw new SvcError(
      'run_interrupted',
      `The daemon was lost ${this.count} times in ${Math.round((now - this.first) / 1000)} s, and is waited for no longer.`,
      {
        hint:
          place.id === null
            ? 'See why with: svc doctor. Then run the command again.'
            : `See why with: svc doctor. Then: svc runs attach ${place.id}`,
      },
    );
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

async function hear(
  client: ControlClient,
  place: Place,
  { what, cancel, leave, steps }: Following,
): Promise<Run> {
  const options = leave === undefined ? {} : { signal: leave };
  const stream =
    'start' in what && place.id === null
      ? client.stream('run.start', { ...what.start, stream: true }, options)
      : client.stream('run.follow', { id: place.id, from_seq: place.next_seq }, options);
  const cancelRun = () =>
    place.id !== null &&
    void client.call('run.cancel', { id: place.id }, { timeout_ms: CANCEL_MS }).catch(() => {});
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
        if (event.type === 'run.started' && event.data.resumes !== true && event.data.attempt !== 1)
          steps.discarded();
        if (event.type === 'run.output_appended') await steps.output(String(event.data.text ?? ''));
        place.next_seq = event.seq + 1;
      }
    }
    return await stream.result;
  } finally {
    cancel.removeEventListener('abort', cancelRun);
  }
}

/** It broke off again and again and nothing came of it. */
function inVain(error: SvcError, place: Place): unknown {
  if (error.code === 'connection_lost' || place.id === null) return withHint(error, place);
  const hint = `See why with: svc doctor. Then: svc runs attach ${place.id}`;
  return new SvcError('run_interrupted', `The daemon did not come back. ${error.message}`, {
    cause: error,
    hint,
  });
}

/** A run that is known can be followed later. */
function withHint(error: unknown, { id }: Place): unknown {
  if (id === null || !(error instanceof SvcError)) return error;
  if (error.code === 'descriptors_exhausted')
    return new SvcError(error.code, error.message, {
      cause: error.cause,
      hint: `The run goes on: svc runs attach ${id}`,
    });
  if (error.code !== 'connection_lost') return error;
  return new SvcError('connection_lost', error.message, {
    cause: error.cause,
    hint: `Run: svc start, then svc runs attach ${id}`,
  });
}

/** Whether the run may go on behind this: the daemon died, was stopped, or is starting. */
function isBreak({ code }: SvcError, { id }: Place): boolean {
  return (
    code === 'connection_lost' ||
    code === 'daemon_not_running' ||
    ((code === 'not_ready' || code === 'daemon_stopping') && id !== null)
  );
}

async function untilBack({ paths }: Following, { id }: Place): Promise<void> {
  for (const end = performance.now() + RETURN_MS; performance.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const client = await connectDaemon(paths).catch(() => null);
    const health = await client?.call('health').catch(() => null);
    client?.close();
    if (health?.ready) return;
  }
  throw new SvcError(
    'run_interrupted',
    'The daemon is gone, and did not come back in time; the run goes on when it is started again.',
    {
      hint:
        id === null
          ? 'Run: svc start, then the command again'
          : `Run: svc start, then svc runs attach ${id}`,
    },
  );
}
