import { dirname } from 'node:path';
import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { platform } from '../../../home/platform.ts';
import { originalOf, ownerOf, readRuntimeFile } from '../../../home/runtime-file.ts';
import { programVersion } from '../../../home/version.ts';
import {
  type ConnectOptions,
  type ControlClient,
  connect,
} from '../../../transport/control/client.ts';

// Not imported: see paths.ts.
const { lstatSync } = process.getBuiltinModule('node:fs');

/**
 * Throws daemon_not_running, timed_out, and home_unusable for a socket that may be another user's.
 * Its calls throw descriptors_exhausted too.
 */
export async function connectDaemon(
  paths: Paths,
  options: Omit<ConnectOptions, 'whyUnread' | 'explain'> = {},
): Promise<ControlClient> {
  return connect(findSocket(paths), {
    ...options,
    whyUnread: () => whyUnread(paths),
    explain: (error) => explainRefusal(error, paths),
  });
}

/**
 * Why a connection closed before any answer: the OS closes connections to a daemon without free
 * descriptors. Null for another cause.
 */
export async function whyUnread({ runtime }: Paths): Promise<SvcError | null> {
  const found = readRuntimeFile(runtime);
  if (found.kind !== 'present' || ownerOf(found.file) !== 'ours') return null;
  const { hasNoneFree } = await import('../../../descriptors.ts');
  return hasNoneFree(found.file.pid) ? new SvcError('descriptors_exhausted') : null;
}

/**
 * The socket of the daemon. If the path is too long for the home, the socket is in the temporary
 * folder. That folder is shared and may differ per process. The path therefore comes from the
 * runtime file, and the owner of its folder is checked.
 */
export function findSocket(paths: Paths): string {
  if (!platform.hasSocketFile || dirname(paths.socket) === dirname(paths.runtime))
    return ownSocket(paths);
  const found = readRuntimeFile(paths.runtime);
  const running =
    found.kind === 'present' && ownerOf(found.file) === 'ours' ? found.file.addresses.socket : null;
  const socket = running ?? paths.socket;
  refuseOthers(dirname(socket));
  return socket;
}

/** A home that was copied by hard links has the socket of the original, which is not asked. */
function ownSocket({ socket, runtime, home }: Paths): string {
  const original = originalOf(runtime);
  if (original === null) return socket;
  throw new SvcError(
    'daemon_not_running',
    `No daemon of ${home} is running: it is a copy of ${original}.`,
  );
}

/** A link is refused too: its owner can change its target. */
function refuseOthers(folder: string): void {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (
    found === undefined ||
    (found.isDirectory() && platform.isOwn(found.uid) && (found.mode & 0o022) === 0)
  )
    return;
  throw new SvcError(
    'home_unusable',
    `Other users can change the folder ${folder} of the local socket.`,
    { hint: 'Set TMPDIR to a folder of your own, or SVC_HOME to a shorter path.' },
  );
}

/**
 * A refusal that names another version of the daemon. This program sends only fields that it knows.
 * A daemon that does not know a method or a field is another one, also at equal version numbers.
 */
function explainRefusal(error: SvcError, { runtime }: Paths): SvcError {
  if (error.code !== 'invalid_request') return error;
  const { param, details = {} } = error;
  const options = param === null ? {} : { param };
  if (details.unknown !== undefined) {
    const what = details.unknown === 'method' ? 'this command' : `the field ${param}`;
    return new SvcError(
      'invalid_request',
      `The daemon is of another version: it has not ${what}.`,
      { ...options, hint: RESTART },
    );
  }
  const found = readRuntimeFile(runtime);
  const [daemon, program] = [
    found.kind === 'present' ? found.file.version : null,
    programVersion(),
  ];
  if (daemon === null || daemon === program) return error;
  return new SvcError('invalid_request', error.message, {
    ...options,
    hint: `The daemon is of version ${daemon}, this program of ${program}. ${RESTART}`,
  });
}

const RESTART = 'To run the daemon of this version: svc restart';
