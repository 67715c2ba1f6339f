import { shownTarget } from '../../../machines/failover.ts';
import { anySignal } from '../../async/signals.ts';
import { uptimeMs } from '../../async/timers.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../terminal/connect/connect-daemon.ts';
import { untilReady } from '../terminal/connect/until-ready.ts';
import type { StartDaemon } from './ensure-daemon.ts';
import type { FailedAttempt } from './progress.ts';

export type Run = Results['run.get'];

export interface Following {
  paths: Paths;
  /** A run to start, with its idempotency key, or an existing run from a position of the log. */
  what:
    | { start: Record<string, unknown> & { idempotency_key: string } }
    | { id: string; from_seq: number };
  /** Cancels the run when it aborts; the end of the run is still awaited. */
  cancel: AbortSignal;
  /** Stops following when it aborts; the run continues. */
  leave?: AbortSignal;
  steps: Steps;
  /** Starts the daemon if none runs or it is not ready; null: never start it. */
  startDaemon: StartDaemon | null;
  /**
   * Longest time from the first loss of the daemon, however often it comes back; in milliseconds.
   */
  patience: () => Promise<number>;
}

export interface Steps {
  onAccepted?(run: Run): void;
  /** The longest answer that the run asked for. Null: it asked for none. */
  onTokenBound?(max_tokens: number | null): void;
  onOutput(text: string): Promise<void> | undefined;
  /** The thoughts of the model before its answer. */
  onReasoning?(text: string): void;
  /** No daemon runs, so one is started. */
  onDaemonStart?(): void;
  /** The provider is called. Undefined: it is not known. */
  onProviderCall?(provider: string | undefined): void;
  /** The part of the model in memory, from 0 to 1. */
  onModelLoading?(model: string, part: number): void;
  /** A target could not answer, and the run continues with another one. */
  onTargetChange?(from: string, why: string, to: string): void;
  /** An attempt failed, and another one follows. */
  onAttemptFailed?(failed: FailedAttempt): void;
  /** The model calls tools that svc carries out, or one of them continues. */
  onToolEvent?(
    run_id: string,
    type: string,
    data: Record<string, unknown>,
  ): Promise<void> | undefined | void;
  /** The run, or its present turn, starts again: the output of the turn is void. */
  onDiscard(): void;
  onQueuePosition?(position: number): void;
  onDisconnect(): void;
  onReconnect(): void;
  /** The run is not followed any longer. */
  onEnd?(): void;
}

/**
 * Follows a run to its end, over as many connections as it takes.
 *
 * 1. Each event is consumed once, in order: a new connection continues after the last one.
 * 2. A start whose answer was lost is sent again with the same key, so there is one run.
 * 3. A daemon that is absent at first is started for a new run only. It is started again if another
 *    command stops it before it has the run.
 * 4. A daemon that died is started again. One that was stopped is only awaited.
 * 5. `Losses` bounds how often.
 * Throws the daemon's errors, daemon_not_running, and run_interrupted if it does not come back.
 */
export async function followRun(following: Following): Promise<Run> {
  try {
    return await followOver(following);
  } finally {
    following.steps.onEnd?.();
  }
}

async function followOver(following: Following): Promise<Run> {
  const { what, paths, steps, startDaemon } = following;
  const cursor: Cursor =
    'start' in what ? { id: null, next_seq: 0 } : { id: what.id, next_seq: what.from_seq };
  const losses = new Losses(following.patience);
  let startsLeft = 'start' in what && startDaemon !== null ? FIRST_STARTS : 0;
  let connectedOnce = false;
  for (;;) {
    const before = cursor.next_seq;
    try {
      const client = await connectDaemon(paths);
      losses.noteConnected();
      steps.onReconnect();
      try {
        return await consume(client, cursor, following);
      } finally {
        client.close();
      }
    } catch (error) {
      // An unread connection ends with daemon_not_running: no daemon has answered it.
      connectedOnce ||= !hasCode(error, 'daemon_not_running');
      if (startsLeft > 0 && cursor.id === null && isAbsent(error, connectedOnce)) {
        startsLeft -= 1;
        steps.onDaemonStart?.();
        await startDaemon?.('absent').catch((failure: unknown) => {
          if (!following.cancel.aborted) throw failure;
        });
        // No daemon has the run yet, so nothing has to be stopped.
        if (following.cancel.aborted)
          throw new SvcError('run_cancelled', 'Cancelled. Nothing was sent.');
        connectedOnce = true;
        continue;
      }
      if (!connectedOnce || following.leave?.aborted || !isLoss(error, cursor))
        throw withHint(error, cursor);
      await losses.add(error, cursor, cursor.next_seq > before);
      steps.onDisconnect();
      await awaitDaemon(error, following, cursor, losses);
    }
  }
}

/** Some commands may stop and start the daemon at the same time. */
const FIRST_STARTS = 3;

/** Whether there is no daemon that accepts the first request. */
export function isAbsent(error: unknown, connected = false): boolean {
  return (
    hasCode(error, 'not_ready', 'daemon_stopping') ||
    (!connected && hasCode(error, 'daemon_not_running'))
  );
}

/** Whether the run may continue after this error: the daemon died, was stopped, or is starting. */
function isLoss(error: unknown, { id }: Cursor): error is SvcError {
  return (
    hasCode(error, 'connection_lost', 'daemon_not_running') ||
    (id !== null && hasCode(error, 'not_ready', 'daemon_stopping'))
  );
}

/** Waits for the daemon, or starts it. A start that is killed is one more loss. */
async function awaitDaemon(
  error: SvcError,
  following: Following,
  cursor: Cursor,
  losses: Losses,
): Promise<void> {
  const { startDaemon } = following;
  if (error.code === 'daemon_stopping' || startDaemon === null)
    return awaitReturn(following.paths, cursor);
  await startDaemon('lost').catch(async (failure: unknown) => {
    if (!isKilledStart(failure)) throw failure;
    await losses.add(failure, cursor, false);
    return awaitDaemon(failure, following, cursor, losses);
  });
}

function isKilledStart(error: unknown): error is SvcError {
  return (
    hasCode(error, 'daemon_not_running', 'connection_lost') ||
    (hasCode(error, 'internal') && error.details?.signal !== undefined)
  );
}

/** Above the longest configurable grace for the work. */
const CANCEL_MS = 660_000;
/** The health of a daemon that has not accepted the run by then is queried. */
const SILENT_MS = 2_000;

async function consume(
  client: ControlClient,
  cursor: Cursor,
  { what, cancel, leave, steps }: Following,
): Promise<Run> {
  const hung = new AbortController();
  const signal = leave === undefined ? hung.signal : anySignal([leave, hung.signal]);
  const stream =
    'start' in what && cursor.id === null
      ? client.stream('run.start', { ...what.start, stream: true }, { signal })
      : client.stream('run.follow', { id: cursor.id, from_seq: cursor.next_seq }, { signal });
  const probe = setTimeout(
    () => void client.call('health').catch((error) => hung.abort(error)),
    SILENT_MS,
  );
  const cancelRun = () =>
    cursor.id !== null &&
    void client.call('run.cancel', { id: cursor.id }, { timeout_ms: CANCEL_MS }).catch(() => {});
  cancel.addEventListener('abort', cancelRun);
  let attempts_max: number | null = null;
  try {
    if (cancel.aborted) cancelRun();
    for await (const event of stream) {
      clearTimeout(probe);
      if ('run' in event) {
        cursor.id = event.run.id;
        cursor.provider = event.run.provider;
        if (cancel.aborted) cancelRun();
        steps.onAccepted?.(event.run);
      } else if ('queue_position' in event) {
        steps.onQueuePosition?.(event.queue_position);
      } else if ('loading' in event) {
        steps.onModelLoading?.(event.loading.model, event.loading.progress);
      } else {
        if (event.type === 'run.accepted') {
          const { max_attempts, fallbacks, request } = event.data as Record<string, unknown>;
          // Each of several targets has its own count.
          attempts_max = fallbacks === undefined ? Number(max_attempts) || null : null;
          steps.onTokenBound?.((request as { max_tokens?: number | null }).max_tokens ?? null);
        }
        if (event.type === 'run.attempt_failed' && event.data.next !== undefined)
          noteMove(event.data, cursor, steps);
        else if (event.type === 'run.attempt_failed')
          steps.onAttemptFailed?.(
            failedAttempt(cursor.provider, event.at, event.data, attempts_max),
          );
        if (event.type === 'run.started') {
          const { resumes, attempt, turn } = event.data;
          const isAgain = turn === undefined ? attempt !== 1 : turn === cursor.turn;
          if (resumes !== true && isAgain) steps.onDiscard();
          cursor.turn = turn;
          steps.onProviderCall?.(cursor.provider);
        }
        if (event.type === 'run.asked_again') steps.onDiscard();
        else if (TOOLS.test(event.type))
          await steps.onToolEvent?.(cursor.id ?? '', event.type, event.data);
        if (event.type === 'run.output_appended') {
          const text = String(event.data.text ?? '');
          if (event.data.kind === undefined) await steps.onOutput(text);
          else if (event.data.kind === 'reasoning') steps.onReasoning?.(text);
        }
        cursor.next_seq = event.seq + 1;
      }
    }
    return await stream.result;
  } catch (error) {
    throw hung.signal.aborted ? hung.signal.reason : error;
  } finally {
    clearTimeout(probe);
    cancel.removeEventListener('abort', cancelRun);
  }
}

/** Events of the tools that svc calls for the run. */
const TOOLS = /^run\.(tool_|turn_completed)/;

/** The data are those of `run.attempt_failed`. Without a next target the run only retries. */
function noteMove(data: Record<string, unknown>, cursor: Cursor, steps: Steps): void {
  const next = data.next as { provider: string; model: string } | undefined;
  if (next === undefined) return;
  const { message } = data.error as { message: string };
  steps.onTargetChange?.(cursor.provider ?? 'the provider', message, shownTarget(next));
  cursor.provider = next.provider;
}

function failedAttempt(
  provider: string | null | undefined,
  at: string,
  { attempt, error, retry_at }: Record<string, unknown>,
  attempts_max: number | null,
): FailedAttempt {
  const { message, code } = (error ?? {}) as Record<string, unknown>;
  const wait_ms = Math.max(0, Number(retry_at) - Date.parse(at)) || 0;
  const values = { provider: provider ?? 'the provider', message: String(message ?? '') };
  // An empty answer is retried fewer times than a failure.
  const most = code === 'answer_empty' ? null : attempts_max;
  return { ...values, attempt: Number(attempt), attempts_max: most, wait_ms };
}

async function awaitReturn(paths: Paths, cursor: Cursor): Promise<void> {
  if (await untilReady(paths)) return;
  throw new SvcError(
    'run_interrupted',
    'The daemon is gone and did not come back in time. The run continues after its next start.',
    { hint: `Run: svc start. Then ${retryHintOf(cursor)}` },
  );
}

/** How far a run has been followed. */
interface Cursor {
  /** Null until the daemon has accepted the run. */
  id: string | null;
  /** Position of the first event that was not consumed. */
  next_seq: number;
  /** The provider that is called at present, if it is known. */
  provider?: string;
  /** As many turns were complete when its last attempt began. Undefined: none. */
  turn?: unknown;
}

/** Lost connections in a row without a new event. */
const RECONNECTS_MAX = 5;

/**
 * Counts how often the daemon was lost, and says when to give up.
 *
 * 1. A connection that brings no event counts; after `RECONNECTS_MAX` in a row the error is thrown.
 * 2. Even with progress, the losses end after the patience. A connection that lasts as long as the
 *    patience starts it again.
 */
class Losses {
  private readonly patience: () => Promise<number>;
  private count = 0;
  private withoutProgress = 0;
  private firstAt: number | null = null;
  private connectedAt: number | null = null;

  constructor(patience: () => Promise<number>) {
    this.patience = patience;
  }

  noteConnected(): void {
    this.connectedAt = uptimeMs();
  }

  /** Throws the final error when there were too many losses. */
  async add(error: SvcError, cursor: Cursor, progress: boolean): Promise<void> {
    const now = uptimeMs();
    const patienceMs = await this.patience();
    if (this.connectedAt !== null && now - this.connectedAt >= patienceMs) {
      this.firstAt = null;
      this.count = 0;
    }
    this.connectedAt = null;
    this.firstAt ??= now;
    this.count += 1;
    this.withoutProgress = progress ? 0 : this.withoutProgress + 1;
    if (this.withoutProgress > RECONNECTS_MAX) throw noProgressErrorOf(error, cursor);
    if (now - this.firstAt < patienceMs) return;
    throw new SvcError(
      'run_interrupted',
      `The daemon was lost ${this.count} times in ${Math.round((now - this.firstAt) / 1000)} s.`,
      { hint: `See why with: svc doctor. Then ${retryHintOf(cursor)}` },
    );
  }
}

function noProgressErrorOf(error: SvcError, cursor: Cursor): unknown {
  if (error.code === 'connection_lost' || cursor.id === null) return withHint(error, cursor);
  return new SvcError('run_interrupted', `The daemon did not come back. ${error.message}`, {
    cause: error,
    hint: `See why with: svc doctor. Then ${retryHintOf(cursor)}`,
  });
}

/** Adds how to follow the run later, if it has an id. */
function withHint(error: unknown, { id }: Cursor): unknown {
  if (id === null || !(error instanceof SvcError)) return error;
  const hints: Record<string, string> = {
    descriptors_exhausted: `The run continues: svc runs attach ${id}`,
    connection_lost: `Run: svc start, then svc runs attach ${id}`,
  };
  const hint = hints[error.code];
  return hint === undefined
    ? error
    : new SvcError(error.code, error.message, { cause: error.cause, hint });
}

/** The hint for the time when the daemon runs again. */
function retryHintOf({ id }: Cursor): string {
  return id === null ? 'run the command again' : `run: svc runs attach ${id}`;
}
