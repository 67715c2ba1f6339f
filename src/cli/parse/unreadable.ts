/** Why a file that a user named cannot be read, as the rest of a sentence. */
export function whyUnreadable(cause: unknown): string {
  const { code = 'unknown reason' } = cause as NodeJS.ErrnoException;
  return PROBLEMS[code] ?? `it cannot be read (${code})`;
}

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'you may not read it',
  EPERM: 'you may not read it',
};
