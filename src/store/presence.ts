import { type BigIntStats, statSync } from 'node:fs';
import { walOf } from './wal.ts';

/**
 * The files that this process has open are still the ones in the folder. A file that was removed or replaced takes writes all the same, and they are gone when
 * it is closed.
 */
export class Presence {
  private readonly files: { name: string; at_open: BigIntStats | null }[];

  constructor(database: string) {
    this.files = [database, walOf(database)].map((name) => ({ name, at_open: look(name) }));
  }

  /** What is wrong, as a sentence. */
  problem(): string | null {
    for (const file of this.files) {
      const found = look(file.name);
      // The database makes its WAL with the first commit.
      file.at_open ??= found;
      if (found === null && file.at_open !== null) return `${file.name} was removed while the daemon ran. What is written now would be lost.`;
      if (found?.ino !== file.at_open?.ino || found?.dev !== file.at_open?.dev)
        return `${file.name} was replaced by another file while the daemon ran. What is written now would be lost.`;
    }
    return null;
  }
}

function look(file: string): BigIntStats | null {
  try {
    return statSync(file, { bigint: true });
  } catch {
    return null;
  }
}
