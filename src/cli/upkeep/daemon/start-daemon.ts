import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Settings } from '../../../config/settings.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { platform } from '../../../home/platform.ts';
import { ownerOf, readRuntimeFile } from '../../../home/runtime-file.ts';
import type { ControlClient } from '../../../transport/control/client.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import { connectDaemon, findSocket } from '../../terminal/connect/connect-daemon.ts';
import { spawnDaemon } from './spawn-daemon.ts';

type Status = Results['status'];

export interface StartOptions {
  paths: Paths;
  flags: Partial<Settings>;
  wait_ms: number;
  /** The new daemon stops the one that runs. */
  replace?: boolean;
  /** Called before a daemon is started. */
  onStart?: () => void;
}

export interface DaemonStart {
  status: Status;
  /** False if one was running already. */
  started: boolean;
}

const WAIT_MS = 30_000;
export const WAIT = { default_ms: WAIT_MS, min: 0.1 };
const ANSWER_MS = 3_000;
const RETRY_MS = 50;

/**
 * Resolves with a ready daemon, and starts one if needed.
 *
 * 1. A daemon answers: waits until it is ready. If it is stopping, waits for its end, then starts
 *    one.
 * 2. None answers, but a process that had a socket is alive: gives it a short time to end.
 * 3. No daemon runs: starts one. If others do so at once, one gets the home and all wait for it. If
 *    this owner ends, the next look starts another.
 */
export async function startDaemon({
  paths,
  flags,
  wait_ms,
  replace = false,
  onStart,
}: StartOptions): Promise<DaemonStart> {
  const deadline = Date.now() + wait_ms;
  if (replace)
    return { status: await spawnDaemon({ paths, flags, wait_ms, replace }), started: true };
  const find = async () => (await whenAnswering(paths, deadline)) ?? whenEnding(paths, deadline);
  let running = await find();
  if (running !== null) return { status: running, started: false };
  onStart?.();
  for (let pause_ms = RETRY_MS; ; pause_ms *= 2) {
    try {
      const status = await spawnDaemon({ paths, flags, wait_ms: deadline - Date.now() });
      return { status, started: true };
    } catch (error) {
      // A node of a fleet whose name is taken has no daemon in this home.
      if (!hasCode(error, 'daemon_already_running') || error.details?.node_id !== undefined)
        throw error;
      running = await find();
      if (running !== null) return { status: running, started: false };
      if (Date.now() + pause_ms >= deadline) throw error;
    }
    await delay(pause_ms);
  }
}

/** The status of the daemon once it is ready; null if none runs, or it ends. */
async function whenAnswering(paths: Paths, deadline: number): Promise<Status | null> {
  let client: ControlClient;
  try {
    client = await connectDaemon(paths, { timeout_ms: ANSWER_MS });
  } catch (error) {
    if (hasCode(error, 'daemon_not_running')) return null;
    throw hungErrorOf(paths, error);
  }
  try {
    const status = await client.call('status', {}, { timeout_ms: ANSWER_MS });
    if (status.state === 'ready' || status.state === 'running') return status;
    return await awaitStatus(client, deadline);
  } catch (error) {
    // The daemon ended before its answer. After a kill the system may refuse unread data.
    if (hasCode(error, 'connection_lost', 'daemon_not_running')) return null;
    throw hungErrorOf(paths, error);
  } finally {
    client.close();
  }
}

/** Null once no process without its socket is left. Throws timed_out for one that remains. */
async function whenEnding(paths: Paths, deadline: number): Promise<Status | null> {
  for (const until = Math.min(deadline, Date.now() + ANSWER_MS); ; ) {
    const socketless = findWithoutSocket(paths);
    if (socketless === null) return whenAnswering(paths, deadline);
    if (Date.now() >= until) {
      throw new SvcError(
        'timed_out',
        `A daemon runs (pid ${socketless.pid}) and does not answer on its socket ` +
          `${findSocket(paths)}.`,
        { hint: 'Its socket was deleted, and is not made again here. Run: svc restart' },
      );
    }
    await delay(RETRY_MS);
  }
}

/** A daemon whose socket file is missing. */
function findWithoutSocket(paths: Paths): { pid: number } | null {
  const found = readRuntimeFile(paths.runtime);
  if (
    found.kind !== 'present' ||
    found.file.addresses.socket === null ||
    ownerOf(found.file) !== 'ours'
  )
    return null;
  return !platform.hasSocketFile || existsSync(findSocket(paths)) ? null : found.file;
}

/** Waits until the daemon is ready or has ended. */
async function awaitStatus(client: ControlClient, deadline: number): Promise<Status> {
  const watch = client.stream(
    'health.watch',
    {},
    { timeout_ms: Math.max(1, deadline - Date.now()) },
  );
  for await (const health of watch) if (health.ready) return client.call('status');
  await watch.result.catch((error: unknown) => {
    throw hasCode(error, 'timed_out') ? new SvcError('start_timed_out') : error;
  });
  return client.call('status');
}

function hungErrorOf(paths: Paths, error: unknown): unknown {
  if (!hasCode(error, 'timed_out')) return error;
  const found = readRuntimeFile(paths.runtime);
  const pid =
    found.kind === 'present' && ownerOf(found.file) === 'ours' ? ` (pid ${found.file.pid})` : '';
  return new SvcError('timed_out', `A daemon runs${pid} and does not answer.`, {
    cause: error,
    hint: 'End it with: svc stop --force',
  });
}
