import { setTimeout as delay } from 'node:timers/promises';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { platform } from '../../../home/platform.ts';
import { ownerOf, readRuntimeFile } from '../../../home/runtime-file.ts';
import { forgetStart, type Starting, startsOf } from '../../../home/starting.ts';
import { defaultLimits } from '../../../limits.ts';
import type { ControlClient } from '../../../transport/control/client.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import { againWhenCut } from '../../terminal/connect/again-when-cut.ts';
import { connectDaemon } from '../../terminal/connect/connect-daemon.ts';

export interface StopOptions {
  paths: Paths;
  force: boolean;
  /** Longest wait for active runs; undefined: as the daemon is configured. */
  timeout_ms: number | undefined;
  /** Leaves the processes that start a daemon: one of them may be the next one. */
  keepsStarts?: boolean;
  /** Called when the stop waits for runs. */
  onDrain?: (runs: Results['status']['runs']) => void;
  /** Called when a silent daemon is sent a signal. */
  onSilent?: (pid: number) => void;
}

export interface DaemonStop {
  was_running: boolean;
  pid: number | null;
  /** Whether it was killed. */
  killed: boolean;
  /**
   * How many runs finished, were handed over to the next start, or were interrupted. Null if
   * unknown.
   */
  runs: Results['stopped'];
}

const ANSWER_MS = 3_000;
const MARGIN_MS = 5_000;
const POLL_MS = 10;

/**
 * Stops the daemon, and resolves when its process is gone.
 *
 * 1. The request goes over the socket; a silent daemon gets SIGTERM, which Windows does not have.
 * 2. With `force`, a daemon that has not ended in time is killed.
 * 3. Only a process that is proven to be the daemon gets a signal.
 * 4. A start that is under way when the stop begins ends too. A later start takes the home.
 */
export async function stopDaemon(options: StopOptions): Promise<DaemonStop> {
  const starts = options.keepsStarts === true ? [] : startsOf(options.paths.runtime);
  const stopped = await stopRunning(options);
  for (const start of starts) {
    if (start.pid === stopped.pid || ownerOf(start) !== 'ours') continue;
    const { pid, killed } = await endProcess(start, options);
    forgetStart(options.paths.runtime, start.pid);
    if (!stopped.was_running) Object.assign(stopped, { was_running: true, pid, killed });
  }
  return stopped;
}

async function stopRunning(options: StopOptions): Promise<DaemonStop> {
  const answering = await againWhenCut(() => ask(options.paths)).catch(ignoreNoAnswer);
  const identity = provenProcess(options.paths);
  if (answering === null) return stopSilent(identity, options);
  try {
    return await stopAnswering(answering, identity, options);
  } finally {
    answering.client.close();
  }
}

interface Answering {
  client: ControlClient;
  status: Results['status'];
}

async function ask(paths: Paths): Promise<Answering> {
  const client = await connectDaemon(paths, { timeout_ms: ANSWER_MS });
  try {
    return { client, status: await client.call('status', {}, { timeout_ms: ANSWER_MS }) };
  } catch (error) {
    client.close();
    throw error;
  }
}

function ignoreNoAnswer(error: unknown): null {
  if (hasCode(error, 'daemon_not_running', 'timed_out', 'descriptors_exhausted')) return null;
  throw error;
}

/** The process of the daemon; null if unproven, as with a daemon in a container. */
function provenProcess(paths: Paths): Starting | null {
  const found = readRuntimeFile(paths.runtime);
  return found.kind === 'present' && ownerOf(found.file) === 'ours' ? found.file : null;
}

async function stopAnswering(
  { client, status }: Answering,
  identity: Starting | null,
  options: StopOptions,
): Promise<DaemonStop> {
  const { force, timeout_ms, onDrain } = options;
  const { runs, pid } = status;
  const patience = await patienceOf(client, options);
  const report = client.call('stopped', {}, { timeout_ms: patience }).catch(keepStallError);
  const event = {
    type: 'stop_requested',
    mode: force ? 'force' : 'drain',
    ...(force ? { timeout_ms: 0 } : timeout_ms === undefined ? {} : { timeout_ms }),
  };
  await client.call('lifecycle', event).catch((error: unknown) => {
    // Refused: it is stopping already. Lost: it has ended already.
    if (!hasCode(error, 'event_refused', 'connection_lost')) throw error;
  });
  if (!force && runs.active + runs.queued > 0) onDrain?.(runs);
  const gone =
    identity === null
      ? await settlesWithin(client.closed, patience)
      : await isGone(identity, patience);
  if (!gone) return killOrGiveUp(identity, pid, force);
  const outcome = await report;
  if (outcome instanceof SvcError) throw outcome;
  return { was_running: true, pid, killed: false, runs: outcome };
}

/**
 * Keeps the error of a stalled disk. Any other daemon without a report has stopped as requested.
 */
function keepStallError(error: unknown): SvcError | null {
  return hasCode(error, 'store_stalled') ? error : null;
}

/** Longest time until the process is gone: the deadlines of the daemon, and a margin. */
async function patienceOf(
  client: ControlClient,
  { force, timeout_ms }: StopOptions,
): Promise<number> {
  const config = (await client.call('config').catch(() => null)) as {
    limits?: Partial<typeof defaultLimits>;
  } | null;
  const { drain_ms, close_ms } = { ...defaultLimits, ...config?.limits };
  return (force ? 0 : (timeout_ms ?? drain_ms)) + close_ms + MARGIN_MS;
}

/** There may be a process without an answer. */
async function stopSilent(identity: Starting | null, options: StopOptions): Promise<DaemonStop> {
  const { force } = options;
  if (identity === null) return { was_running: false, pid: null, killed: false, runs: null };
  if (!force && platform.endSignal !== null) options.onSilent?.(identity.pid);
  return endProcess(identity, options);
}

/** By a signal. */
async function endProcess(
  identity: Starting,
  { force, timeout_ms }: StopOptions,
): Promise<DaemonStop> {
  const { pid } = identity;
  const { endSignal } = platform;
  if (force || endSignal === null) return killOrGiveUp(identity, pid, force);
  process.kill(pid, endSignal);
  const gone = await isGone(identity, (timeout_ms ?? defaultLimits.drain_ms) + MARGIN_MS);
  return gone
    ? { was_running: true, pid, killed: false, runs: null }
    : killOrGiveUp(identity, pid, false);
}

async function killOrGiveUp(
  identity: Starting | null,
  pid: number,
  force: boolean,
): Promise<DaemonStop> {
  if (!force) throw new SvcError('stop_timed_out', `The daemon (pid ${pid}) did not stop in time.`);
  if (identity !== null && ownerOf(identity) === 'ours') process.kill(pid, 'SIGKILL');
  if (identity !== null && (await isGone(identity, MARGIN_MS)))
    return { was_running: true, pid, killed: true, runs: null };
  throw new SvcError('stop_timed_out', `The daemon (pid ${pid}) does not end.`, {
    hint: `Look at the process: ps -o pid,stat,wchan,command -p ${pid}`,
  });
}

/** Polls: only the parent of a process is notified of its exit. */
async function isGone(identity: Starting, within_ms: number): Promise<boolean> {
  for (const deadline = Date.now() + within_ms; Date.now() < deadline; ) {
    if (ownerOf(identity) !== 'ours') return true;
    await delay(POLL_MS);
  }
  return false;
}

async function settlesWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  const timer = new AbortController();
  const passed = delay(ms, false, { signal: timer.signal }).catch(() => false);
  return Promise.race([promise.then(() => true), passed]).finally(() => timer.abort());
}
