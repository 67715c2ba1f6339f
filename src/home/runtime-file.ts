import { dirname } from 'node:path';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { writeAtomic } from './atomic-write.ts';
import { platform } from './platform.ts';
import { isAlive } from './process-alive.ts';

/**
 * The runtime file: which process runs, and where it listens. It stays after a
 * crash.
 *
 * 1. Only the owner of the home writes it, whole.
 * 2. The file proves nothing: its process may be gone, and another program may have its pid.
 * 3. A process is ours only if its start time matches. No other process is ever signalled.
 * 4. It says in which folder it was written. In a copy of the home it is missing: the copy has no
 *    daemon, and the process belongs to the original.
 */

// Not imported: see paths.ts.
const { readFileSync } = process.getBuiltinModule('node:fs');

export interface RuntimeFile {
  pid: number;
  /** The start time of the process, so that a reused pid is recognised. Null if unknown. */
  process_start: string | null;
  /** Where the file was written: not in a copy of it. Daemons of older versions say nothing. */
  folder?: { path: string; device: string; inode: string };
  boot_id: string;
  version: string;
  started_at: string;
  program: string;
  node: string;
  addresses: { http: string | null; grpc: string | null; socket: string | null };
}

export type RuntimeFileState =
  | { kind: 'missing' }
  | { kind: 'corrupt'; reason: string; unread?: unknown }
  | { kind: 'present'; file: RuntimeFile };

/** Who has the pid now. `unproven`: it is alive, and the system does not report its start. */
export type Owner = 'ours' | 'gone' | 'other' | 'unproven';

export function readRuntimeFile(path: string): RuntimeFileState {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ENOTDIR'
      ? { kind: 'missing' }
      : { kind: 'corrupt', reason: `it cannot be read, ${whyUnusable(error)}`, unread: error };
  }
  let found: RuntimeFileState;
  try {
    found = check(JSON.parse(text));
  } catch {
    return { kind: 'corrupt', reason: 'it is not JSON' };
  }
  return found.kind === 'present' && isCopied(found.file, path) ? { kind: 'missing' } : found;
}

/**
 * Whether it was written in another folder. A folder that is reached by another path, or was
 * renamed, is the same one. Older daemons omit their folder.
 */
export function isCopied({ folder }: Pick<RuntimeFile, 'folder'>, path: string): boolean {
  if (folder === undefined) return false;
  const here = folderOf(path);
  return folder.device !== here.device || folder.inode !== here.inode;
}

/**
 * The folder of the original, if this home is a copy and the original is still there. A copy by
 * hard links has the socket, the lock and the log of the original. Null: there is no original.
 */
export function originalOf(path: string): string | null {
  try {
    const found = check(JSON.parse(readFileSync(path, 'utf8')));
    const folder = found.kind === 'present' ? found.file.folder : undefined;
    if (folder === undefined || !isCopied({ folder }, path)) return null;
    const { dev, ino } = process
      .getBuiltinModule('node:fs')
      .statSync(folder.path, { bigint: true });
    return folder.device === String(dev) && folder.inode === String(ino) ? folder.path : null;
  } catch {
    return null;
  }
}

/** The folder of a runtime file, with its device and inode, which a copy does not share. */
export function folderOf(path: string): NonNullable<RuntimeFile['folder']> {
  const { realpathSync, statSync } = process.getBuiltinModule('node:fs');
  const folder = dirname(path);
  const { dev, ino } = statSync(folder, { bigint: true });
  return { path: realpathSync(folder), device: String(dev), inode: String(ino) };
}

/** Mode 0600, replaced at once. Throws home_unusable. */
export async function writeRuntimeFile(path: string, file: RuntimeFile): Promise<void> {
  const { promises } = process.getBuiltinModule('node:fs');
  try {
    await promises.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, `${JSON.stringify(file, null, 2)}\n`);
  } catch (cause) {
    throw new SvcError(
      'home_unusable',
      `The runtime file ${path} cannot be written: ${whyUnusable(cause)}.`,
      { cause },
    );
  }
}

/**
 * Removes the file, unless another boot has written it. If that fails, it empties the file.
 * Throws home_unusable.
 */
export async function removeRuntimeFile(path: string, boot_id: string): Promise<void> {
  const { rmSync, truncateSync } = process.getBuiltinModule('node:fs');
  const found = readRuntimeFile(path);
  // A file that cannot be read may be of another boot, so it stays.
  if (found.kind === 'corrupt' && found.unread !== undefined)
    throw leftBehindErrorOf(path, 'read', found.unread);
  if (found.kind !== 'present' || found.file.boot_id !== boot_id) return;
  try {
    rmSync(path, { force: true });
  } catch (cause) {
    try {
      truncateSync(path);
    } catch {
      // The first failure is the one to report.
    }
    throw leftBehindErrorOf(path, 'removed', cause);
  }
}

function leftBehindErrorOf(path: string, what: 'read' | 'removed', cause: unknown): SvcError {
  return new SvcError(
    'home_unusable',
    `svc has stopped, but its runtime file ${path} cannot be ${what}: ${whyUnusable(cause)}.`,
    { cause, hint: 'Correct the owner and mode of its folder, then delete the file.' },
  );
}

export function ownerOf(file: Pick<RuntimeFile, 'pid' | 'process_start'>): Owner {
  if (!isAlive(file.pid)) return 'gone';
  const start = platform.processStart(file.pid);
  if (start === 'zombie') return 'gone';
  if (start === null || file.process_start === null) return 'unproven';
  return start === file.process_start ? 'ours' : 'other';
}

function check(value: unknown): RuntimeFileState {
  const file = value as Partial<RuntimeFile> | null;
  if (typeof file !== 'object' || file === null)
    return { kind: 'corrupt', reason: 'it is not an object' };
  const { pid, process_start, boot_id, addresses } = file;
  // Zero and negative pids are process groups.
  if (!Number.isSafeInteger(pid) || (pid as number) <= 0)
    return { kind: 'corrupt', reason: 'its pid is not a process id' };
  if (process_start !== null && typeof process_start !== 'string')
    return { kind: 'corrupt', reason: 'its process_start is not text' };
  if (typeof boot_id !== 'string' || !isAddresses(addresses))
    return { kind: 'corrupt', reason: 'it was not written by svc' };
  if (file.folder !== undefined && !isFolder(file.folder))
    return { kind: 'corrupt', reason: 'its folder is not one' };
  for (const name of ['version', 'started_at', 'program', 'node'] as const)
    if (typeof file[name] !== 'string')
      return { kind: 'corrupt', reason: `its ${name} is not text` };
  return { kind: 'present', file: file as RuntimeFile };
}

function isFolder(value: unknown): boolean {
  const folder = value as Record<string, unknown> | null;
  return (
    typeof folder === 'object' &&
    folder !== null &&
    ['path', 'device', 'inode'].every((name) => typeof folder[name] === 'string')
  );
}

function isAddresses(value: unknown): boolean {
  const addresses = value as Record<string, unknown> | null | undefined;
  return (
    typeof addresses === 'object' &&
    addresses !== null &&
    ['http', 'grpc', 'socket'].every(
      (name) => addresses[name] === null || typeof addresses[name] === 'string',
    )
  );
}
