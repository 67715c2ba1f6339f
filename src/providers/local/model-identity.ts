import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

/** A smaller file is hashed at once. */
export const HASHED_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Says which file it is: `sha256:` with its digest. While the digest of a large file is unknown,
 * what identifies it on its disk: two machines never agree by chance. Null: it cannot be read.
 */
export async function identityOf(
  path: string,
  recorded: () => Promise<string | null>,
): Promise<string | null> {
  try {
    const { size, mtimeMs, ino } = await stat(path);
    if (size <= HASHED_BYTES_MAX) return await sha256(path);
    return (await recorded()) ?? `file:${ino}-${size}-${mtimeMs}`;
  } catch {
    return null;
  }
}

export async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return `sha256:${hash.digest('hex')}`;
}

/** An identity in a message. */
export function shortIdentity(identity: string | null): string {
  return identity?.replace(/^(sha256:.{12}).*$/, '$1…') ?? 'a file that cannot be read';
}
