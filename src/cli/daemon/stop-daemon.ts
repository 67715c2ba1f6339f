import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { ownerOf, readRuntimeFile } from '../../home/runtime-file.ts';
import { defaultLimits } from '../../limits.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Results, RuntimeFile } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';

export interface StopOptions {
  paths: Paths;
  force: boolean;
  /** Longest wait for active runs; undefined: what the daemon is configured with. */
  timeout_ms: number | undefined;
  /** Called when runs are being waited for. */
  onDrain?: (runs: Results['status']['runs']) => void;
  /** Called when it does not answer and is sent a signal. */
  onSilent?: (pid: number) => void;
}

export interface Stopped {
  was_running: boolean;
  pid: number | null;
  /** It did not end by itself. */
  killed: boolean;
  /** What became of its runs: how many finished meanwhile, are handed over to the next start, or ended as interrupted. Null when it could not tell. */
  runs: Results['stopped'];
}

type Identity = Pick<RuntimeFile, 'pid' | 'process_start'>;

const ANSWER_MS = 3_000;
const MARGIN_MS = 5_000;
const POLL_MS = 10;

/**
 * Stops the daemon, and resolves when its process is gone.
 *
 * 1. It is asked over its socket; one that does not answer there is asked with SIGTERM.
 * 2. With `force`, one that has not ended in its time is killed.
 * 3. A signal goes only to a process that is proven to be the daemon.
 */
export async function stopDaemon(options: StopOptions): Promise<Stopped> {
  const client = await connectDaemon(options.paths, { timeout_ms: ANSWER_MS }).catch(noAnswer);
  try {
    const status = await client?.call('status', {}, { timeout_ms: ANSWER_MS }).catch(noAnswer);
    const identity = provenProcess(options.paths);
    return client && status
      ? await stopAnswering(client, status, identity, options)
      : await stopSilent(identity, options);
  } finally {
    client?.close();
  }
}

function noAnswer(error: unknown): null {
  if (hasCode(error, 'daemon_not_running', 'timed_out', 'descriptors_exhausted')) return null;
  throw error;
}

/** The daemon's process; null where that cannot be proven, as with a daemon in a container. */
function provenProcess(paths: Paths): Identity | null {
  const found = readRuntimeFile(paths.runtime);
  return found.kind === 'present' && ownerOf(found.file) === 'ours' ? found.file : null;
}

async function stopAnswering(
  client: ControlClient,
  status: Results['status'],
  identity: Identity | null,
  options: StopOptions,
): Promise<Stopped> {
  const { force, timeout_ms, onDrain } = options;
  const { runs, pid } = status;
  const patience = await patienceOf(client, options);
  const report = client.call('stopped', {}, { timeout_ms: patience }).catch(unanswered);
  const event = {
    type: 'stop_requested',
    mode: force ? 'force' : 'drain',
    ...(force ? { timeout_ms: 0 } : timeout_ms === undefined ? {} : { timeout_ms }),
  };
  await client.call('lifecycle', event).catch((error: unknown) => {
    // Refused: it is stopping already. Lost: it was so quick.
    if (!hasCode(error, 'event_refused', 'connection_lost')) throw error;
  });
  if (!force && runs.active + runs.queued > 0) onDrain?.(runs);
  const gone =
    identity === null ? await within(client.closed, patience) : await isGone(identity, patience);
  if (!gone) return killOrGiveUp(identity, pid, force);
  const outcome = await report;
  if (outcome instanceof SvcError) throw outcome;
  return { was_running: true, pid, killed: false, runs: outcome };
}

/** A daemon that ended since its disk gave no answer says so; any other that ended without a report is gone, which is what was asked for. */
function unanswered(error: unknown): SvcError | null {
  return hasCode(error, 'store_stalled') ? error : null;
}

/** How long it may take until it has to be gone: its own deadlines, and some. */
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

/** Nobody answers: there may be a process all the same. */
async function stopSilent(
  identity: Identity | null,
  { force, timeout_ms, onSilent }: StopOptions,
): Promise<Stopped> {
  if (identity === null) return { was_running: false, pid: null, killed: false, runs: null };
  const { pid } = identity;
  if (force) return killOrGiveUp(identity, pid, true);
  onSilent?.(pid);
  process.kill(pid, 'SIGTERM');
  const gone = await isGone(identity, (timeout_ms ?? defaultLimits.drain_ms) + MARGIN_MS);
  return gone
    ? { was_running: true, pid, killed: false, runs: null }
    : killOrGiveUp(identity, pid, false);
}

async function killOrGiveUp(
  identity: Identity | null,
  pid: number,
  force: boolean,
): Promise<Stopped> {
  if (!force) throw new SvcError('stop_timed_out', `The daemon (pid ${pid}) did not stop in time.`);
  if (identity !== null && ownerOf(identity) === 'ours') process.kill(pid, 'SIGKILL');
  if (identity !== null && (await isGone(identity, MARGIN_MS)))
    return { was_running: true, pid, killed: true, runs: null };
  throw new SvcError('stop_timed_out', `The daemon (pid ${pid}) does not end.`, {
    hint: `Look at the process: ps -o pid,stat,wchan,command -p ${pid}`,
  });
}

/** The system tells nobody but its parent when a process ends, so it is asked again and again. */
async function isGone(identity: Identity, within_ms: number): Promise<boolean> {
  for (const deadline = Date.now() + within_ms; Date.now() < deadline; ) {
    if (ownerOf(identity) !== 'ours') return true;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return false;
}

async function within(fact: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  return Promise.race([fact.then(() => true), passed]).finally(() => clearTimeout(timer));
}
