import { chmodSync, readFileSync } from 'node:fs';
import * as v from 'valibot';
import { systemCode, whyUnusable } from '../../causes.ts';
import { SCOPES } from '../../contract/words.ts';
import { SvcError } from '../../errors.ts';
import { writeAtomic } from '../../home/atomic-write.ts';
import { platform } from '../../home/platform.ts';

/**
 * The list of named tokens on disk.
 *
 * 1. It has hashes of the tokens. A token has 256 random bits, so a fast hash is safe: no one can
 *    try them all. A slow one would only delay each request.
 * 2. A write replaces the whole file, which only its owner can read. Writes follow each other.
 * 3. An unreadable list is an error. To read it as empty would end every token in silence.
 */
export interface TokenFile {
  /** Throws home_unusable. */
  read(): TokenEntry[];
  /** Throws home_unusable. */
  write(entries: readonly TokenEntry[]): Promise<void>;
}

const entry = v.object({
  name: v.string(),
  scope: v.picklist(SCOPES),
  /** SHA-256 of the token, in hex. */
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  /** Requests a minute. Null: no bound. */
  rate: v.nullable(v.number()),
  /** Requests at one time. Null: no bound. */
  concurrent: v.nullable(v.number()),
  created_at: v.number(),
  /** Null: never. */
  used_at: v.nullable(v.number()),
  /** The token ends with this process. Absent: it is valid until it is revoked. */
  process: v.optional(v.object({ pid: v.number(), process_start: v.nullable(v.string()) })),
});
const list = v.object({ tokens: v.array(entry) });
export type TokenEntry = v.InferOutput<typeof entry>;

export function tokenFile(path: string): TokenFile {
  let last: Promise<unknown> = Promise.resolve();
  const replace = async (text: string) => {
    try {
      await writeAtomic(path, text, { draft: `${path}.tmp`, sync: true });
    } catch (cause) {
      throw unusableError(path, 'written', cause);
    }
  };
  return {
    read: () =>
      readTokens(path, () => {
        if (platform.others !== 0) chmodSync(path, 0o600);
      }),
    write(entries) {
      const written = last.then(() => replace(`${JSON.stringify({ tokens: entries }, null, 2)}\n`));
      last = written.catch(() => {});
      return written;
    },
  };
}

/** Reads the list, and calls `onRead` before it is checked. Throws home_unusable. */
export function readTokens(path: string, onRead: () => void = () => {}): TokenEntry[] {
  try {
    const text = readFileSync(path, 'utf8');
    onRead();
    return v.parse(list, JSON.parse(text)).tokens;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw unusableError(path, 'read', cause);
  }
}

function unusableError(path: string, what: 'read' | 'written', cause: unknown): SvcError {
  const why = systemCode(cause) === null ? 'it is damaged' : whyUnusable(cause);
  return new SvcError('home_unusable', `The list of tokens ${path} cannot be ${what}: ${why}.`, {
    cause,
    hint:
      'Restore it from a backup. Or delete it, and create the tokens again with: ' +
      'svc token create',
  });
}
