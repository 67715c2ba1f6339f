import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import { walOf } from './wal.ts';

export interface PresenceOptions {
  database: string;
  /** From one look at the names of the files to the next. */
  look_ms: number;
  /** The files that this process has open. The WAL joins them with the first commit. */
  descriptors(): Iterable<number>;
}

/**
 * The files that this process has open are still the ones in the folder. A file that was removed or replaced accepts writes all the same, and they are gone when
 * it is closed.
 *
 * 1. Each commit finds an open file that has no name any more: one that was removed, or overwritten by a rename. This costs a microsecond a file.
 * 2. A commit finds files that have another name now at most `look_ms` after the move. Nothing is lost until then: the files have what was acknowledged.
 */
export class Presence {
  private readonly options: PresenceOptions;
  private readonly files: { name: string; at_open: BigIntStats | null }[];
  private look_at = 0;

  constructor(options: PresenceOptions) {
    this.options = options;
    this.files = [options.database, walOf(options.database)].map((name) => ({
      name,
      at_open: look(name),
    }));
  }

  /** What a commit must know: what is wrong, as a sentence. */
  problemOfCommit(): string | null {
    for (const fd of this.options.descriptors())
      if (fstatSync(fd).nlink === 0) return this.problem() ?? REMOVED;
    return performance.now() < this.look_at ? null : this.problem();
  }

  /** Looks at the names too. */
  problem(): string | null {
    for (const file of this.files) {
      const found = look(file.name);
      // The database makes its WAL with the first commit.
      file.at_open ??= found;
      if (found === null && file.at_open !== null)
        return `${file.name} was removed while the daemon ran. ${LOST}`;
      if (found?.ino !== file.at_open?.ino || found?.dev !== file.at_open?.dev)
        return `${file.name} was replaced by another file while the daemon ran. ${LOST}`;
    }
    this.look_at = performance.now() + this.options.look_ms;
    return null;
  }
}

const LOST = 'What is written now would be lost.';
const REMOVED = `A file of the event log was removed while the daemon ran. ${LOST}`;

function look(file: string): BigIntStats | null {
  try {
    return statSync(file, { bigint: true });
  } catch {
    return null;
  }
}
