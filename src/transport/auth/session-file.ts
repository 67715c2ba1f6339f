import { readFileSync } from 'node:fs';
import { whyUnusable } from '../../causes.ts';
import { SvcError } from '../../errors.ts';
import { writeAtomic } from '../../home/atomic-write.ts';

/**
 * The list of live sessions on disk, so that sessions and sign-outs survive a restart.
 *
 * 1. The list has ids and times, and no secret. An unreadable list counts as empty, and all
 *    browsers sign in again.
 * 2. A write replaces the whole file. Writes follow each other.
 */
export interface SessionFile {
  read(): SessionEntry[];
  /** Throws home_unusable. */
  write(entries: readonly SessionEntry[]): Promise<void>;
}

export interface SessionEntry {
  id: string;
  until_s: number;
}

export function sessionFile(path: string): SessionFile {
  let last: Promise<unknown> = Promise.resolve();
  const replace = async (text: string) => {
    try {
      await writeAtomic(path, text, { draft: `${path}.tmp` });
    } catch (cause) {
      throw new SvcError(
        'home_unusable',
        `The list of console sessions ${path} cannot be written: ${whyUnusable(cause)}.`,
        { cause },
      );
    }
  };
  return {
    read() {
      try {
        return (JSON.parse(readFileSync(path, 'utf8')) as { sessions: unknown[] }).sessions.filter(
          isEntry,
        );
      } catch {
        return [];
      }
    },
    write(entries) {
      const written = last.then(() => replace(`${JSON.stringify({ sessions: entries })}\n`));
      last = written.catch(() => {});
      return written;
    },
  };
}

function isEntry(value: unknown): value is SessionEntry {
  const { id, until_s } = (value ?? {}) as Partial<SessionEntry>;
  return typeof id === 'string' && typeof until_s === 'number';
}
