import type Database from 'better-sqlite3';
import { hasCode, SvcError } from '../../../errors.ts';
import { EVENT_NAMES, eventOf } from '../columns.ts';
import { GENESIS } from '../continuity.ts';
import { Gaps } from '../gaps.ts';
import { type HashedRow, hex, linkProblem } from '../inspect/check.ts';
import { ofAsker } from '../places.ts';
import { fieldsProblem, STORED_FIELDS, type StoredFields } from '../projection.ts';
import type { EventRow } from '../row.ts';
import { pragma, schemaOf } from '../schema.ts';
import { USES } from '../texts.ts';
import { Texts } from './texts-table.ts';

/** An event with its hash and the previous hash; null if that is missing. */
export type LinkedRow = HashedRow & { previous: unknown };

const LINKED = `select ${EVENT_NAMES.map((name) => `e.${name}`).join(', ')}, e.hash as hash,
    p.hash as previous
  from events e left join events p on p.seq = e.seq - 1`;

/**
 * Reads events. Throws store_corrupt, naming the event, or store_tail_lost.
 *
 * 1. Each event must match its hash.
 * 2. The versions of a stream have no gaps, and a finished run has its last event. Otherwise the
 *    read is refused.
 * 3. If the log lost its end, only a finished run is whole. The end of any other stream is
 *    refused.
 * 4. The size of a page is that of its expanded events.
 */
export class EventReads {
  protected readonly pageBytes: number;
  protected readonly db: Database.Database;
  protected readonly texts: Texts;
  private readonly tailLost: SvcError | null;
  private readonly gaps: Gaps;
  private readonly ends: RunEnds;
  private readonly stream: Database.Statement<[string, number, number], LinkedRow>;
  private readonly all: Database.Statement<[number, number], LinkedRow>;
  private readonly lastOfStream: Database.Statement<[string], LinkedRow>;
  private readonly lastOfTypes: Database.Statement<[string, string], LinkedRow>;

  /** `tailLost`: the error of a log that lost its end; null otherwise. */
  constructor(db: Database.Database, pageBytes: number, tailLost: SvcError | null = null) {
    this.db = db;
    this.pageBytes = pageBytes;
    this.tailLost = tailLost;
    this.texts = new Texts(db);
    this.gaps = new Gaps(db);
    this.ends = new RunEnds(db);
    this.stream = db.prepare(
      `${LINKED} where e.stream = ? and e.version >= ? order by e.version limit ?`,
    );
    this.all = db.prepare(`${LINKED} where e.seq >= ? order by e.seq limit ?`);
    this.lastOfStream = db.prepare(`${LINKED} where e.stream = ? order by e.version desc limit 1`);
    this.lastOfTypes = db.prepare(
      `${LINKED} where e.stream = ? and e.type in (select value from json_each(?))
         order by e.version desc limit 1`,
    );
  }

  readStream(stream: string, fromVersion: number, limit: number): EventRow[] {
    const page = this.page(
      inOrder(this.stream.iterate(stream, fromVersion, atMost(limit)), stream, fromVersion),
    );
    if (page.length === 0 && limit > 0) this.checkEnd(stream);
    return page;
  }

  readAll(fromSeq: number, limit: number): EventRow[] {
    return this.page(this.all.iterate(fromSeq, atMost(limit)));
  }

  /** The same as they are stored, with references. */
  readStored(fromSeq: number, limit: number): EventRow[] {
    return this.page(this.all.iterate(fromSeq, atMost(limit)), (row) => row.data);
  }

  /** Throws store_corrupt: it is missing or damaged. */
  text(digest: string): string {
    return this.texts.read(digest);
  }

  lastEvent(stream: string, types?: readonly string[]): EventRow | null {
    const row =
      types === undefined
        ? this.lastOfStream.get(stream)
        : this.lastOfTypes.get(stream, JSON.stringify(types));
    return row === undefined ? null : { ...this.requireIntact(row), data: this.expandData(row) };
  }

  runsNamed(prefix: string, limit: number, asked_by?: string): string[] {
    const values = { from: prefix, to: `${prefix}${AFTER_IDS}`, limit: atMost(limit) };
    return this.db
      .prepare<[object], string>(
        'select stream from events e where stream >= @from and stream < @to and version = 1 ' +
          `${asked_by === undefined ? '' : `and ${ofAsker('e.seq')}`} ` +
          'order by stream limit @limit',
      )
      .pluck()
      .all(asked_by === undefined ? values : { ...values, asked_by });
  }

  newestRun(): string | null {
    const query =
      "select stream from events where version = 1 and type = 'run.accepted' " +
      'order by seq desc limit 1';
    return this.db.prepare<[], string>(query).pluck().get() ?? null;
  }

  /** Events with their hashes, unchecked. */
  iterate(fromSeq: number, limit: number): Iterable<LinkedRow> {
    return this.all.iterate(fromSeq, limit);
  }

  /** The problem of an event, as a sentence. */
  problem(row: LinkedRow): string | null {
    if (row.previous !== null)
      return linkProblem({ seq: row.seq - 1, hash: hex(row.previous) }, row);
    const gap = row.seq === 1 ? { seq: 0, hash: GENESIS } : this.gaps.endOf(row.seq - 1);
    if (gap === null)
      return (
        `The event ${row.seq - 1} of the log is missing: the one after it (${row.type}) ` +
        'cannot be checked.'
      );
    return linkProblem(gap, row);
  }

  /** Called when no event of the stream is left. */
  private checkEnd(stream: string): void {
    const end = this.ends.of(stream);
    if (end === null && this.tailLost !== null) throw this.tailLost;
    if (end === null || (this.lastOfStream.get(stream)?.seq ?? 0) >= end) return;
    throw new SvcError(
      'store_corrupt',
      `The end of ${stream} is missing in the log: it had come to the event ${end}.`,
      { details: { seq: end, stream } },
    );
  }

  /** Rows up to a size, and at least one. */
  private page(
    rows: Iterable<LinkedRow>,
    dataOf = (row: LinkedRow) => this.expandData(row),
  ): EventRow[] {
    const page: EventRow[] = [];
    let size = 0;
    for (const row of rows) {
      if (page.length > 0 && size + row.data.length > this.pageBytes) break;
      const event = this.requireIntact(row);
      const data = dataOf(row);
      size += data.length;
      if (page.length > 0 && size > this.pageBytes) break;
      page.push({ ...event, data });
    }
    return page;
  }

  /** Throws store_corrupt. */
  private expandData({ seq, stream, type, data }: EventRow): string {
    try {
      return this.texts.expand(data);
    } catch (error) {
      if (!hasCode(error, 'store_corrupt')) throw error;
      throw new SvcError('store_corrupt', `The event ${seq} of the log (${type}) ${USES}.`, {
        cause: error,
        details: { seq, stream },
      });
    }
  }

  private requireIntact(row: LinkedRow): EventRow {
    const problem = this.problem(row);
    if (problem !== null)
      throw new SvcError('store_corrupt', problem, {
        details: { seq: row.seq, stream: row.stream },
      });
    return eventOf(row);
  }
}

/** The sign sorts after each character of an id. */
const AFTER_IDS = '~';

/**
 * A hash covers the previous event of the log, mostly of another stream. So only versions show
 * that an event of this stream is missing.
 * History is removed from the end of a stream, so the rest begins with version 1 and has no gaps.
 */
function* inOrder(
  rows: Iterable<LinkedRow>,
  stream: string,
  fromVersion: number,
): Iterable<LinkedRow> {
  let version = Math.max(1, fromVersion);
  for (const row of rows) {
    if (row.version !== version) {
      const problem =
        `Events of ${stream} are missing in the log: version ${row.version} comes where ` +
        `version ${version} belongs.`;
      throw new SvcError('store_corrupt', problem, { details: { seq: row.seq, stream } });
    }
    version += 1;
    yield row;
  }
}

/** SQLite takes a negative limit as no limit. */
export function atMost(limit: number): number {
  return Math.max(0, Math.min(Math.trunc(limit), Number.MAX_SAFE_INTEGER));
}

/** The first version of the tables in which rows of `runs` have digests. */
const DIGESTS_SCHEMA = 3;

/**
 * Where finished runs end, by their records. Versions cannot show that the last events of a
 * stream are missing.
 * A damaged record says nothing: it is rebuilt from the events.
 */
class RunEnds {
  private readonly finished: Database.Statement<[string], StoredFields> | null;

  constructor(db: Database.Database) {
    const hasDigests = schemaOf(Number(pragma(db, 'user_version'))) >= DIGESTS_SCHEMA;
    this.finished = hasDigests
      ? db.prepare(`${STORED_FIELDS} where r.run_id = ? and r.finished = 1`)
      : null;
  }

  /** Position of the last event of a finished run; null for any other stream. */
  of(stream: string): number | null {
    const row = this.finished?.get(stream);
    return row === undefined || fieldsProblem(row) !== null ? null : row.seq;
  }
}
