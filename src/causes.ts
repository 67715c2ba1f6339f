/** An error and its causes, outermost first. */
export function causesOf(thrown: unknown): NodeJS.ErrnoException[] {
  const found: NodeJS.ErrnoException[] = [];
  for (let error = thrown; error instanceof Error && found.length < DEPTH_MAX; error = error.cause)
    found.push(error);
  return found;
}

const DEPTH_MAX = 10;

/**
 * The first error code of the system or of undici in the chain. It is a constant, never foreign
 * text.
 */
export function systemCode(thrown: unknown): string | null {
  const codes = causesOf(thrown).map(({ code }) => code);
  return codes.find((code) => typeof code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(code)) ?? null;
}

/** Why a file cannot be used, in words with its code, as the rest of a sentence. */
export function whyUnusable(thrown: unknown): string {
  const code = systemCode(thrown);
  if (code === null) return 'the reason is unknown';
  const words = REASONS[code];
  return words === undefined ? `the reason is ${code}` : `${words} (${code})`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'its disk is read-only',
  EISDIR: 'it is a folder',
  ERR_FS_EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is a file, not a folder',
  EEXIST: 'something else is in its place',
  ELOOP: 'it is a link that leads to itself',
  ENAMETOOLONG: 'its path is too long',
  ENOSPC: 'its disk is full',
  EDQUOT: 'the quota of its disk is used up',
  EIO: 'its disk reports an error',
  EBUSY: 'another program uses it',
  EMFILE: 'the process may open no more files',
  ENFILE: 'the system may open no more files',
};

/** Whether the code of a TLS connection is about the certificate of the other side. */
export function isCertificateCode(code: string | null): boolean {
  return code !== null && /CERT|_SIGNED|^ERR_TLS|VERIFY/.test(code);
}
