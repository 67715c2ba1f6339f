import { dirname } from 'node:path';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { ownerOf, readRuntimeFile } from '../../home/runtime-file.ts';
import {
  type ConnectOptions,
  type ControlClient,
  connect,
} from '../../transport/control/client.ts';

// Not imported: see paths.ts.
const { lstatSync } = process.getBuiltinModule('node:fs');

/** Throws daemon_not_running, timed_out, and home_unusable for a socket that may be another user's. Its calls throw descriptors_exhausted too. */
export async function connectDaemon(
  paths: Paths,
  options: Omit<ConnectOptions, 'whyUnread'> = {},
): Promise<ControlClient> {
  return connect(findSocket(paths), { ...options, whyUnread: () => whyUnread(paths) });
}

/** Why a connection closed unread: a daemon without a free descriptor lives, and the system closes each connection to it. Null for another cause. */
export async function whyUnread({ runtime }: Paths): Promise<SvcError | null> {
  const found = readRuntimeFile(runtime);
  if (found.kind !== 'present' || ownerOf(found.file) !== 'ours') return null;
  const { hasNoneFree } = await import('../../descriptors.ts');
  return hasNoneFree(found.file.pid) ? new SvcError('descriptors_exhausted') : null;
}

/**
 * Where the daemon listens. A socket that is not in the home is in the temporary folder, which is everybody's and which each
 * process may be given another of: the daemon that runs says where its own is, and whoever could have put one there is told from us.
 */
export function findSocket(paths: Paths): string {
  if (process.platform === 'win32' || dirname(paths.socket) === dirname(paths.runtime))
    return paths.socket;
  const found = readRuntimeFile(paths.runtime);
  const told =
    found.kind === 'present' && ownerOf(found.file) === 'ours' ? found.file.addresses.socket : null;
  const socket = told ?? paths.socket;
  refuseOthers(dirname(socket));
  return socket;
}

/** A link is refused too: whoever made it can make it lead elsewhere. */
function refuseOthers(folder: string): void {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (
    found === undefined ||
    (found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o022) === 0)
  )
    return;
  throw new SvcError(
    'home_unusable',
    `Others can change the folder ${folder}, where the local socket belongs.`,
    {
      hint: 'Set TMPDIR to a folder of yours, or choose a home with a shorter path with SVC_HOME.',
    },
  );
}
