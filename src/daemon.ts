import type { DaemonSnapshot } from '../machines/daemon.ts';
import { refuseOpenBind } from './config/address.ts';
import { loadConfig } from './config/config.ts';
import type { Settings } from './config/settings.ts';
import { endBlockedStop, endUnrecorded } from './daemon/blocked-stop.ts';
import { giveMemoryBack } from './daemon/idle-memory.ts';
import { buildParts, type Parts } from './daemon/parts.ts';
import { listenToSignals } from './daemon/signals.ts';
import { STOPPED, startDaemon } from './daemon/start.ts';
import { closeAll, releaseAll } from './daemon/stop.ts';
import { asSvcError, fromBody, SvcError } from './errors.ts';
import { prepareHome, readSecret } from './home/home.ts';
import type { Paths } from './home/paths.ts';
import { programVersion } from './home/version.ts';
import { isFull } from './store/failure.ts';
import { ownsAny } from './store/files/ownership.ts';

/**
 * One life of the daemon process: builds the parts, starts them in order, stops them in reverse.
 *
 * 1. What happens next is read from the daemon's machine; this file performs, it does not decide.
 * 2. The life ends when the machine has reached a final state, or when facts can no longer be recorded.
 * 3. A start and a stop end in their time even if the log takes no fact that says so: the disk may be full, or not answer.
 * 4. Whatever this process makes is for its owner only from its first instant, under any umask of the caller.
 */

export interface ServeOptions {
  paths: Paths;
  flags?: Partial<Record<keyof Settings, unknown>>;
  /** Started by `svc start`: logs go to the files only, and the parent is told how the start went. */
  background: boolean;
  /** Log lines on stdout are JSON, also on a terminal. */
  json?: boolean;
}

/** Runs the daemon. Resolves with its exit code; throws SvcError when it could not start or failed. */
export async function serveDaemon({
  paths,
  flags = {},
  background,
  json = false,
}: ServeOptions): Promise<number> {
  process.umask(0o077);
  const failure = await live({ paths, flags, background, json }).catch((error: unknown) =>
    asFailure(error),
  );
  // Work that does not end when it is told to must not keep the process.
  const leaving = setTimeout(leave, LEAVE_MS);
  if (!ownsAny()) leaving.unref();
  if (failure === null) return 0;
  notifyParent({ type: 'failed', error: failure.body() });
  throw failure;
}

async function live({
  paths,
  flags,
  background,
  json,
}: Required<ServeOptions>): Promise<SvcError | null> {
  const config = loadConfig(paths.config, { flags });
  refuseOpenBind(config);
  await prepareHome(paths, process.env.SVC_HOME !== undefined);
  const secrets = { token: await readSecret(paths.token), digest: await readSecret(paths.secret) };
  const stdout = background ? 'none' : process.stdout.isTTY && !json ? 'pretty' : 'json';

  const { promise: ended, resolve: end } = Promise.withResolvers<SvcError | null>();
  const fail = (error: unknown) => end(asFailure(error));
  const bounds: (() => void)[] = [];
  const endBy = (at: number, passed: () => void) => {
    const callOff = parts.clock.after(at + SLACK_MS - parts.clock.now(), passed);
    bounds.push(callOff);
  };
  const onStop = (close_deadline_at: number) => {
    endBy(close_deadline_at, () => void endUnrecorded(parts).then(end));
    // The stop is proposed next.
    queueMicrotask(blocked.check);
  };
  const closeDaemon = () => void starting.then(() => releaseAll(parts)).catch(fail);
  const parts = buildParts({
    paths,
    config,
    version: programVersion(),
    secrets,
    stdout,
    closeDaemon,
    onStop,
    onFatal: fail,
  });
  parts.kernel.onFact((event, snapshot) => {
    if (event.stream === parts.streams.daemon && snapshot.status === 'done')
      end(failureOf(snapshot as unknown as DaemonSnapshot));
  });
  const blocked = endBlockedStop(parts, end);
  bounds.push(blocked.close);
  const unlisten = listen(parts, fail);
  bounds.push(giveMemoryBack(config.limits.memory_idle_ms));
  const endStart = (at: number) => {
    if (!isStarting) return;
    const moved_to =
      parts.kernel.snapshot<DaemonSnapshot>(parts.streams.daemon)?.context.start_deadline_at ?? 0;
    // Each step of the recovery that is durable has moved it.
    if (moved_to > at) endBy(moved_to, () => endStart(moved_to));
    else fail(parts.kernel.stalled ?? new SvcError('start_timed_out'));
  };
  let isStarting = true;
  const start_deadline_at = parts.clock.now() + config.limits.start_ms;
  endBy(start_deadline_at, () => endStart(start_deadline_at));
  const starting = startDaemon(parts)
    .finally(() => {
      isStarting = false;
    })
    .then(
      () => notifyParent({ type: 'ready', status: parts.runtime.status() }),
      (error: unknown) => {
        if (error !== STOPPED) fail(error);
      },
    );
  const failure = await ended;
  for (const callOff of bounds) callOff();
  if (failure !== null) logFailure(parts, failure);
  const outcome = await closeAll(parts, failure);
  unlisten();
  return outcome;
}

/** The machine's own deadline comes first wherever it can be recorded. */
const SLACK_MS = 500;

const LEAVE_MS = 2000;

/** Signals ask the machine to stop; an error that nobody caught ends this life, loudly. */
function listen(parts: Parts, fail: (error: unknown) => void): () => void {
  const unlisten = listenToSignals((mode) => {
    if (mode === 'exit') {
      parts.log.warn({}, 'left at once, at the third signal');
      return kill();
    }
    parts.runtime
      .lifecycle({ type: 'stop_requested', mode }, 'signal')
      .catch((error: unknown) =>
        parts.log.debug({ err: error }, 'a signal came when the daemon was stopping already'),
      );
  });
  const refuseDebugger = () => parts.log.warn({}, 'SIGUSR1 asked for a debugger: none is opened');
  process.on('SIGUSR1', refuseDebugger);
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);
  return () => {
    unlisten();
    process.off('SIGUSR1', refuseDebugger);
    process.off('uncaughtException', fail);
    process.off('unhandledRejection', fail);
  };
}

/** An exit, also one that comes by itself, waits for the store's thread, as long as the disk holds that up: then only a kill ends this process. */
function leave(): void {
  if (ownsAny()) kill();
  process.exit();
}

/** What was logged is written by now. */
function kill(): void {
  process.kill(process.pid, 'SIGKILL');
}

function failureOf(final: DaemonSnapshot): SvcError | null {
  const { error } = final.context;
  return final.matches('failed') ? fromBody(error ?? {}) : null;
}

/** A start that finds another daemon is no fault of this one: where it was found out is of no use to anybody. */
function logFailure({ log }: Parts, failure: SvcError): void {
  if (failure.code === 'daemon_already_running') log.warn({ code: failure.code }, failure.message);
  else log.error({ code: failure.code, err: failure.cause ?? failure }, failure.message);
}

/** Maps what ended this life. Any lack of space becomes store_full; any other failure of a file names the file and the cause. */
function asFailure(thrown: unknown): SvcError {
  const error = asSvcError(isFull(thrown) ? thrown : asFileFailure(thrown));
  if (error.code === 'store_full' || !isFull(error.cause)) return error;
  const what = error.code === 'internal' ? 'The daemon cannot write what it needs.' : error.message;
  return new SvcError('store_full', `The disk is full. ${what}`, {
    cause: error.cause,
    hint: 'Free some space, then run: svc start',
  });
}

/** A call of the system on a file that failed: Node tells which call, which file and why. */
function asFileFailure(thrown: unknown): unknown {
  const { syscall, path, code } = thrown as NodeJS.ErrnoException;
  if (thrown instanceof SvcError || typeof syscall !== 'string' || typeof path !== 'string')
    return thrown;
  return new SvcError('home_unusable', `${path} cannot be used: ${syscall} failed (${code}).`, {
    cause: thrown,
    hint: 'Correct its owner and mode, and look at its disk; or choose another home with SVC_HOME.',
  });
}

/** Tells `svc start` how it went, if that is who started us. */
function notifyParent(message: object): void {
  if (process.send === undefined || !process.connected) return;
  process.send(message, () => process.connected && process.disconnect());
}
