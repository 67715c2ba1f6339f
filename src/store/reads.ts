import type Database from 'better-sqlite3';
import { EVENT_COLUMNS } from './check.ts';
import type { EventRow } from './row.ts';
import type { RunHead, RunQuery } from './store.ts';

type ListParams = { before: string | null; state: string | null; provider: string | null; limit: number };

/** The questions that can be asked of the database, prepared once. They change nothing. */
export class Reads {
  private readonly db: Database.Database;
  private readonly page_bytes: number;
  private readonly stream: Database.Statement<[string, number, number], EventRow>;
  private readonly all: Database.Statement<[number, number], EventRow>;
  private readonly newest: Database.Statement<[ListParams], string>;
  private readonly older: Database.Statement<[ListParams], string>;
  private readonly run: Database.Statement<[string], string>;
  private readonly head: Database.Statement<[string], { finished: 0 | 1; seq: number }>;
  private readonly runByKey: Database.Statement<[string], string>;

  constructor(db: Database.Database, page_bytes: number) {
    this.db = db;
    this.page_bytes = page_bytes;
    this.stream = db.prepare(`select ${EVENT_COLUMNS} from events where stream = ? and version >= ? order by version limit ?`);
    this.all = db.prepare(`select ${EVENT_COLUMNS} from events where seq >= ? order by seq limit ?`);
    this.newest = prepareList(db, '@before is null');
    this.older = prepareList(db, 'accepted_seq < (select accepted_seq from runs where run_id = @before)');
    this.run = db.prepare<[string], string>('select data from runs where run_id = ?').pluck();
    this.head = db.prepare('select finished, seq from runs where run_id = ?');
    this.runByKey = db.prepare<[string], string>('select data from runs where idempotency_key = ?').pluck();
  }

  readStream(stream: string, fromVersion: number, limit: number): EventRow[] {
    return this.page(this.stream.iterate(stream, fromVersion, atMost(limit)));
  }

  lastEvent(stream: string): EventRow | null {
    const query = `select ${EVENT_COLUMNS} from events where stream = ? order by version desc limit 1`;
    return this.db.prepare<[string], EventRow>(query).get(stream) ?? null;
  }

  readAll(fromSeq: number, limit: number): EventRow[] {
    return this.page(this.all.iterate(fromSeq, atMost(limit)));
  }

  /** The stored data of each. */
  listRuns({ limit, before, state, provider }: RunQuery): string[] {
    const statement = before === undefined ? this.newest : this.older;
    return statement.all({ before: before ?? null, state: state ?? null, provider: provider ?? null, limit: atMost(limit) });
  }

  getRun(run_id: string): string | null {
    return this.run.get(run_id) ?? null;
  }

  runHead(run_id: string): RunHead | null {
    const found = this.head.get(run_id);
    return found === undefined ? null : { finished: found.finished === 1, seq: found.seq };
  }

  getRunByKey(idempotency_key: string): string | null {
    return this.runByKey.get(idempotency_key) ?? null;
  }

  unfinishedRuns(): string[] {
    return this.db.prepare<[], string>('select run_id from runs where finished = 0 order by accepted_seq').pluck().all();
  }

  runsAt(seq: number, limit: number): string[] {
    const query = `select run_id from (
        select run_id, accepted_seq from runs where finished = 0 and accepted_seq <= @seq
        union all select run_id, accepted_seq from runs where finished = 1 and accepted_seq <= @seq and seq >= @seq
      ) order by accepted_seq limit @limit`;
    return this.db
      .prepare<[{ seq: number; limit: number }], string>(query)
      .pluck()
      .all({ seq, limit: atMost(limit) });
  }

  startedStreams(from_seq: number, to_seq: number, limit: number): string[] {
    const query = `select stream from events where version = 1 and type <> 'run.accepted' and seq between ? and ? order by seq limit ?`;
    return this.db.prepare<[number, number, number], string>(query).pluck().all(from_seq, to_seq, atMost(limit));
  }

  countRuns(): { finished: number; unfinished: number } {
    const count = (where: string) => this.db.prepare<[], number>(`select count(*) from runs ${where}`).pluck().get() ?? 0;
    const unfinished = count('where finished = 0');
    return { finished: count('') - unfinished, unfinished };
  }

  /** Null in an empty log. */
  firstSeq(): number | null {
    return this.db.prepare<[], number | null>('select min(seq) from events').pluck().get() ?? null;
  }

  lastBootId(): string | null {
    return this.db.prepare<[], string>(`select boot_id from events where type = 'daemon.boot_started' order by seq desc limit 1`).pluck().get() ?? null;
  }

  /** Rows until they are large: at least one, if there is one. */
  private page(rows: Iterable<EventRow>): EventRow[] {
    const page: EventRow[] = [];
    let size = 0;
    for (const row of rows) {
      size += row.data.length;
      if (page.length > 0 && size > this.page_bytes) break;
      page.push(row);
    }
    return page;
  }
}

function prepareList(db: Database.Database, condition: string): Database.Statement<[ListParams], string> {
  const where = `${condition} and (@state is null or state = @state) and (@provider is null or provider = @provider)`;
  return db.prepare<[ListParams], string>(`select data from runs where ${where} order by accepted_seq desc limit @limit`).pluck();
}

/** The database takes a negative number for no limit at all. */
function atMost(limit: number): number {
  return Math.max(0, Math.min(Math.trunc(limit), Number.MAX_SAFE_INTEGER));
}
