import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import { walOf } from './wal.ts';

export interface PresenceOptions {
  database: string;
  /** Between two checks of the file names. */
  look_ms: number;
  /** Descriptors of the open files. The WAL joins with the first commit. */
  descriptors(): Iterable<number>;
}

/**
 * Checks that the open files are still the ones in the folder. A removed file accepts writes,
 * which are lost when it is closed.
 *
 * 1. Each commit finds an open file without a name: it was removed, or replaced by a rename. This
 *    costs a microsecond a file.
 * 2. A commit finds files with another name at most `look_ms` after the move. Until then nothing
 *    is lost: the moved files have all acknowledged events.
 */
export class Presence {
  private readonly options: PresenceOptions;
  private readonly files: { name: string; at_open: BigIntStats | null }[];
  private nextCheckAt = 0;

  constructor(options: PresenceOptions) {
    this.options = options;
    this.files = [options.database, walOf(options.database)].map((name) => ({
      name,
      at_open: statFile(name),
    }));
  }

  /** What is wrong, as a sentence. Cheap enough for every commit. */
  problemOfCommit(): string | null {
    for (const fd of this.options.descriptors())
      if (fstatSync(fd).nlink === 0) return this.problem() ?? REMOVED;
    return performance.now() < this.nextCheckAt ? null : this.problem();
  }

  /** What is wrong, as a sentence. Checks the names too. */
  problem(): string | null {
    for (const file of this.files) {
      const found = statFile(file.name);
      // SQLite creates its WAL with the first commit.
      file.at_open ??= found;
      if (found === null && file.at_open !== null)
        return `${file.name} was removed while the daemon ran. ${LOST}`;
      if (found?.ino !== file.at_open?.ino || found?.dev !== file.at_open?.dev)
        return `${file.name} was replaced by another file while the daemon ran. ${LOST}`;
    }
    this.nextCheckAt = performance.now() + this.options.look_ms;
    return null;
  }
}

const LOST = 'What is written now would be lost.';
const REMOVED = `A file of the event log was removed while the daemon ran. ${LOST}`;

function statFile(file: string): BigIntStats | null {
  try {
    return statSync(file, { bigint: true });
  } catch {
    return null;
  }
}
