import { constants } from 'node:os';
import { whyUnusable } from '../../causes.ts';
import { SvcError } from '../../errors.ts';

/** Converts an error of the database or the file system. The original stays in `cause`. */
export function asStoreError(thrown: unknown, database: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const code = codeOf(thrown);
  const wrap = (
    known: 'store_full' | 'daemon_already_running' | 'store_corrupt' | 'store_failed',
    message?: string,
  ) => new SvcError(known, message, { cause: thrown });
  if (isFull(thrown)) return wrap('store_full');
  if (code.startsWith('SQLITE_BUSY'))
    return wrap('daemon_already_running', `Another process holds the event log ${database}.`);
  if (DAMAGE.some((start) => code.startsWith(start)))
    return wrap('store_corrupt', `The event log ${database} is damaged.`);
  return wrap('store_failed', ofFile(thrown));
}

/** A file system error names the file, the operation and the cause. */
function ofFile(thrown: unknown): string | undefined {
  const { path } = thrown as { path?: unknown };
  return typeof path === 'string' ? `${path} cannot be used: ${whyUnusable(thrown)}.` : undefined;
}

/**
 * A file or folder that cannot be used: another thing is in its place, or its owner or mode is
 * wrong.
 */
export function unusable(path: string, cause: unknown): SvcError {
  const code = codeOf(cause);
  if (FOLDER.includes(code))
    return new SvcError('home_unusable', `${path} is a folder; a file of svc belongs there.`, {
      cause,
      hint: AWAY,
    });
  return new SvcError('home_unusable', `${path} cannot be used: ${whyUnusable(cause)}.`, {
    cause,
    ...(FILE.includes(code) ? { hint: AWAY } : {}),
  });
}

const FOLDER = ['EISDIR', 'ERR_FS_EISDIR'];
const FILE = ['EEXIST', 'ENOTDIR'];
const AWAY = 'Move away what is in its place; svc makes a new one when it starts.';

/** Our statements are valid, so SQLITE_ERROR means that the tables are not ours. */
const DAMAGE = ['SQLITE_CORRUPT', 'SQLITE_NOTADB', 'SQLITE_ERROR', 'SQLITE_MISMATCH'];

/** True if a page of the file is damaged. A damaged index of words does not count. */
export function isDamage(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return code.startsWith('SQLITE_CORRUPT') && code !== 'SQLITE_CORRUPT_VTAB';
}

/** True if there was no space, and so nothing changed. */
export function isFull(thrown: unknown): boolean {
  // Node has no name for EDQUOT.
  return (
    ['SQLITE_FULL', 'ENOSPC', 'EDQUOT'].includes(codeOf(thrown)) ||
    (thrown as { errno?: unknown } | null)?.errno === -constants.errno.EDQUOT
  );
}

export function codeOf(thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** The error of a store that is not open. It passes: the daemon starts or stops, or joins again. */
export function notOpen(): SvcError {
  return new SvcError('not_ready', 'The event log is not open: the daemon starts or stops.');
}
