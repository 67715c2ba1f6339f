import type Database from 'better-sqlite3';
import type { Mark } from './files/high-water.ts';

/** Marks the hash of a removed event, which can no longer be compared. */
export const REMOVED = 'removed';

/** An event to remove. */
export interface RemovedEvents {
  seq: number;
  hash: Buffer;
}

type GapRow = { first_seq: number; last_seq: number; last_hash: Buffer };

/**
 * The parts of the log that were removed on purpose. The hash chain continues from the last event
 * of each.
 *
 * 1. Two gaps never touch: removing events beside a gap extends it.
 * 2. A gap is recorded in the transaction that removes its events.
 */
export class Gaps {
  private readonly atOrBefore: Database.Statement<[number], GapRow> | null;
  private readonly db: Database.Database;

  constructor(db: Database.Database) {
    this.db = db;
    // A log of the first version has no gaps before its upgrade.
    const known = db.prepare(`select 1 from sqlite_schema where name = 'gaps'`).get() !== undefined;
    this.atOrBefore = known
      ? db.prepare(
          'select first_seq, last_seq, last_hash from gaps where first_seq <= ? ' +
            'order by first_seq desc limit 1',
        )
      : null;
  }

  /** The end of the gap at this position; null if there is no gap. */
  endOf(seq: number): Mark | null {
    const gap = this.find(seq);
    return gap === undefined ? null : { seq: gap.last_seq, hash: gap.last_hash.toString('hex') };
  }

  /** The last gap that begins at or before this position. */
  lastBefore(seq: number): Mark | null {
    const gap = this.atOrBefore?.get(seq);
    return gap === undefined ? null : { seq: gap.last_seq, hash: gap.last_hash.toString('hex') };
  }

  /** Records these events as removed. */
  add(removed: RemovedEvents[]): void {
    const put = this.db.prepare<[GapRow]>(
      'insert or replace into gaps (first_seq, last_seq, last_hash) ' +
        'values (@first_seq, @last_seq, @last_hash)',
    );
    const drop = this.db.prepare<[number]>('delete from gaps where first_seq = ?');
    for (const range of rangesOf(removed)) {
      const before = this.find(range.first_seq - 1);
      const after = this.find(range.last_seq + 1);
      if (after !== undefined) drop.run(after.first_seq);
      const { last_seq, last_hash } = after ?? range;
      put.run({ first_seq: before?.first_seq ?? range.first_seq, last_seq, last_hash });
    }
  }

  private find(seq: number): GapRow | undefined {
    const gap = this.atOrBefore?.get(seq);
    return gap !== undefined && gap.last_seq >= seq ? gap : undefined;
  }
}

function rangesOf(removed: RemovedEvents[]): GapRow[] {
  const ranges: GapRow[] = [];
  for (const { seq, hash } of removed.toSorted((a, b) => a.seq - b.seq)) {
    const last = ranges.at(-1);
    if (last?.last_seq === seq - 1) Object.assign(last, { last_seq: seq, last_hash: hash });
    else ranges.push({ first_seq: seq, last_seq: seq, last_hash: hash });
  }
  return ranges;
}
