import type Database from 'better-sqlite3';
import { SvcError } from '../errors.ts';
import { GENESIS } from './chain.ts';
import { EVENT_COLUMNS, type HashedRow, hex, linkProblem } from './check.ts';
import { Gaps } from './gaps.ts';
import type { EventRow } from './row.ts';

/** An event with its hash and the hash of the event before it; null where that is not there. */
export type LinkedRow = HashedRow & { previous: unknown };

const LINKED = `select ${EVENT_COLUMNS.split(', ')
  .map((column) => `e.${column}`)
  .join(', ')}, e.hash as hash, p.hash as previous from events e left join events p on p.seq = e.seq - 1`;

/** Reads events, and holds each to its hash: a changed one is never given. Throws store_corrupt, naming the event. */
export class EventReads {
  private readonly page_bytes: number;
  private readonly gaps: Gaps;
  private readonly stream: Database.Statement<[string, number, number], LinkedRow>;
  private readonly all: Database.Statement<[number, number], LinkedRow>;
  private readonly last: Database.Statement<[string], LinkedRow>;

  constructor(db: Database.Database, page_bytes: number) {
    this.page_bytes = page_bytes;
    this.gaps = new Gaps(db);
    this.stream = db.prepare(`${LINKED} where e.stream = ? and e.version >= ? order by e.version limit ?`);
    this.all = db.prepare(`${LINKED} where e.seq >= ? order by e.seq limit ?`);
    this.last = db.prepare(`${LINKED} where e.stream = ? order by e.version desc limit 1`);
  }

  readStream(stream: string, fromVersion: number, limit: number): EventRow[] {
    return this.page(this.stream.iterate(stream, fromVersion, atMost(limit)));
  }

  readAll(fromSeq: number, limit: number): EventRow[] {
    return this.page(this.all.iterate(fromSeq, atMost(limit)));
  }

  lastEvent(stream: string): EventRow | null {
    const row = this.last.get(stream);
    return row === undefined ? null : this.checked(row);
  }

  /** With their hashes, not checked yet. */
  iterate(fromSeq: number, limit: number): Iterable<LinkedRow> {
    return this.all.iterate(fromSeq, limit);
  }

  /** What is wrong with an event, as a sentence. */
  problem(row: LinkedRow): string | null {
    if (row.previous !== null) return linkProblem({ seq: row.seq - 1, hash: hex(row.previous) }, row);
    const gap = row.seq === 1 ? { seq: 0, hash: GENESIS } : this.gaps.endOf(row.seq - 1);
    if (gap === null) return `The event ${row.seq - 1} of the log is missing: the one after it (${row.type}) cannot be checked.`;
    return linkProblem(gap, row);
  }

  /** Rows until they are large: at least one, if there is one. */
  private page(rows: Iterable<LinkedRow>): EventRow[] {
    const page: EventRow[] = [];
    let size = 0;
    for (const row of rows) {
      size += row.data.length;
      if (page.length > 0 && size > this.page_bytes) break;
      page.push(this.checked(row));
    }
    return page;
  }

  private checked(row: LinkedRow): EventRow {
    const problem = this.problem(row);
    if (problem !== null) throw new SvcError('store_corrupt', problem, { details: { seq: row.seq, stream: row.stream } });
    const { hash: _, previous: __, ...event } = row;
    return event;
  }
}

/** The database takes a negative number for no limit at all. */
export function atMost(limit: number): number {
  return Math.max(0, Math.min(Math.trunc(limit), Number.MAX_SAFE_INTEGER));
}
