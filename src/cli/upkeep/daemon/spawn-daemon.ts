import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
} from 'node:fs';
import { dirname, parse, resolve } from 'node:path';
import { whyUnusable } from '../../../causes.ts';
import type { Settings } from '../../../config/settings.ts';
import { type ErrorBody, fromBody, SvcError } from '../../../errors.ts';
import { DAEMON_ALLOCATOR } from '../../../home/allocator.ts';
import type { Paths } from '../../../home/paths.ts';
import { platform } from '../../../home/platform.ts';
import { programFile } from '../../../home/program-file.ts';
import { remedyFor } from '../../../home/remedy.ts';
import { startEndedError } from '../../../home/starting.ts';
import type { Results } from '../../../transport/control/protocol.ts';

/**
 * Starts the daemon in the background and waits until it is ready.
 *
 * 1. It has its own session and working folder and no terminal: closing ours does not end it.
 * 2. Its stderr goes to a file, which is emptied above its bound.
 * 3. The wait ends with ready, with an error, with the end of the process, or with the time.
 *    The daemon is never ended here.
 */

export interface SpawnOptions {
  paths: Paths;
  flags: Partial<Settings>;
  wait_ms: number;
  replace?: boolean;
}

type Message = { type: 'ready'; status: Results['status'] } | { type: 'failed'; error: ErrorBody };

const STDERR_BYTES_MAX = 1024 * 1024;

/** Throws the error of the daemon, start_timed_out, or internal if it died without an error. */
export async function spawnDaemon({
  paths,
  flags,
  wait_ms,
  replace = false,
}: SpawnOptions): Promise<Results['status']> {
  const output = openOutput(paths.stderr);
  const child = spawn(
    process.execPath,
    [
      ...process.execArgv,
      programFile(),
      'serve',
      '--background',
      ...(replace ? ['--replace'] : []),
      ...words(flags),
    ],
    {
      detached: true,
      windowsHide: true,
      cwd: parse(process.execPath).root,
      env: environment(process.env),
      stdio: ['ignore', output, output, 'ipc'],
    },
  );
  closeSync(output);
  try {
    return await awaitFirstMessage(child, wait_ms);
  } finally {
    child.removeAllListeners();
    child.on('error', () => {});
    if (child.connected) child.disconnect();
    child.unref();
  }
}

function awaitFirstMessage(child: ChildProcess, wait_ms: number): Promise<Results['status']> {
  return new Promise((resolve, reject) => {
    const fail = (error: SvcError) => {
      clearTimeout(timer);
      reject(error);
    };
    const timer = setTimeout(
      () =>
        fail(
          new SvcError(
            'start_timed_out',
            'The daemon was not ready in time. It is still starting.',
          ),
        ),
      wait_ms,
    );
    child.on('message', (message: Message) => {
      if (message.type === 'failed') return fail(fromBody(message.error));
      clearTimeout(timer);
      resolve(message.status);
    });
    child.on('error', (cause) =>
      fail(
        new SvcError(
          'internal',
          `No process can be started for the daemon: ${whyUnusable(cause)}.`,
          { cause, hint: 'Check the bounds on processes and memory: ulimit -a. Then: svc doctor' },
        ),
      ),
    );
    child.on('exit', (code, signal) => {
      const details = signal === null ? {} : { details: { signal } };
      const isStopped = signal === platform.endSignal || (signal === null && code === 0);
      const died = () =>
        fail(
          isStopped
            ? startEndedError()
            : new SvcError(
                'internal',
                `The daemon ended while it started (${signal ?? `exit code ${code}`}).`,
                { hint: 'See: svc doctor', ...details },
              ),
        );
      // Its last message may arrive after its exit.
      if (child.connected) child.on('disconnect', died);
      else died();
    });
  });
}

function openOutput(file: string): number {
  try {
    makeFolder(dirname(file));
    const output = openSync(file, 'a', 0o600);
    const { size, mode } = fstatSync(output);
    if (size > STDERR_BYTES_MAX) ftruncateSync(output);
    if ((mode & platform.others) !== 0) fchmodSync(output, 0o600);
    return output;
  } catch (cause) {
    throw new SvcError('home_unusable', `${file} cannot be written: ${whyUnusable(cause)}.`, {
      cause,
      hint: remedyFor(file, cause),
    });
  }
}

/** Recursive by hand: the recursive mkdir of Node never ends in folders such as /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another command may have created it meanwhile.
    if (!existsSync(folder)) throw error;
  }
}

function words(flags: Partial<Settings>): string[] {
  return Object.entries(flags).map(([name, value]) => `--${name.replaceAll('_', '-')}=${value}`);
}

/**
 * Makes paths absolute, because the daemon has another working folder. The service manager of the
 * caller watches the caller, not this daemon.
 */
function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { SVC_HOME, SVC_MODEL, NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, ...others } = env;
  return {
    ...DAEMON_ALLOCATOR,
    ...others,
    ...(SVC_HOME === undefined ? {} : { SVC_HOME }),
    ...(SVC_MODEL === undefined ? {} : { SVC_MODEL }),
    ...(SVC_HOME ? { SVC_HOME: resolve(SVC_HOME) } : {}),
    ...(SVC_MODEL?.endsWith('.gguf') ? { SVC_MODEL: resolve(SVC_MODEL) } : {}),
  };
}
