import type Database from 'better-sqlite3';
import { codeOf } from '../failure.ts';
import { conflict, type EventRow, type RunLine } from '../row.ts';
import { dataDigest, fieldsDigest, type RunFields } from '../run-digest.ts';
import type { Words } from '../words.ts';

/**
 * `+?`: SQLite plans a statement again for each value of a bare parameter that its plan may depend
 * on. That costs ten times the search.
 */
export function prepareWrites(db: Database.Database) {
  return {
    begin: db.prepare<[]>('begin immediate'),
    rollback: db.prepare<[]>('rollback'),
    lastVersion: db
      .prepare<[string], number>('select max(version) from events where stream = +?')
      .pluck(),
    insertEvent: db.prepare<EventValues>(
      'insert into events (seq, stream, version, type, schema, at, boot_id, data, hash) ' +
        'values (?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ),
  };
}

/** In the order of the columns: SQLite looks for each name of a named value. */
type EventValues = [number, string, number, string, number, number, string, string, Buffer];

export function eventValues(
  { seq, stream, version, type, schema, at, boot_id, data }: EventRow,
  hash: Buffer,
): EventValues {
  return [seq, stream, version, type, schema, at, boot_id, data, hash];
}

/** Writes rows of runs with their digests. The index of words follows later. */
export class RunWrites {
  private readonly db: Database.Database;
  private readonly words: Pick<Words, 'add'>;
  private readonly statements: ReturnType<typeof prepare>;

  constructor(db: Database.Database, words: Pick<Words, 'add'>) {
    this.db = db;
    this.words = words;
    this.statements = prepare(db);
  }

  /**
   * In the transaction of the caller, after these events. Throws store_conflict if another run has
   * the key.
   */
  write(line: RunLine, events: readonly EventRow[] = []): void {
    const { accepted, endedAt, upsertRun, upsertDigests, cloud, place } = this.statements;
    const { usage: _, ...fields } = line;
    const row = {
      ...fields,
      accepted_seq: accepted.get(line.run_id) ?? line.seq,
      ended_at: line.finished === 1 ? (endOf(line, events) ?? endedAt.get(line.seq) ?? null) : null,
    };
    try {
      upsertRun.run(...runValues(row));
    } catch (error) {
      if (codeOf(error) !== 'SQLITE_CONSTRAINT_UNIQUE') throw error;
      throw conflict(
        `The idempotency key of the run ${line.run_id} is that of another run.`,
        error,
      );
    }
    if (line.cloud === 1) cloud.run(row);
    if (line.conversation !== null || line.origin !== null) place.run(row);
    upsertDigests.run(line.run_id, fieldsDigest(row), dataDigest(line.run_id, line.data));
  }

  /** Replaces a row. False if the run has newer events. */
  mend(line: RunLine): boolean {
    const { last, drop } = this.statements;
    const mend = this.db.transaction(() => {
      if (last.get(line.run_id) !== line.seq) return false;
      // Its indexes may be damaged, so it is deleted by each of them.
      for (const statement of drop) statement.run({ run_id: line.run_id });
      this.write(line);
      // The index may be past the end of this run.
      this.words.add([line.run_id]);
      return true;
    });
    return mend.immediate();
  }
}

/** When the last event of the run was, if it is one of these. Their positions have no gaps. */
function endOf({ seq }: RunLine, events: readonly EventRow[]): number | undefined {
  return events[seq - (events[0]?.seq ?? 0)]?.at;
}

type RunValues = [string, number, string | null, number, number | null, ...Rest];
type Rest = [state: string, provider: string, seq: number, data: string];

/** In the order of the columns. */
function runValues(row: RunFields & Pick<RunLine, 'data'>): RunValues {
  const { run_id, accepted_seq, idempotency_key, finished, ended_at } = row;
  const { state, provider, seq, data } = row;
  return [run_id, accepted_seq, idempotency_key, finished, ended_at, state, provider, seq, data];
}

function prepare(db: Database.Database) {
  return {
    accepted: db
      .prepare<[string], number>('select seq from events where stream = ? and version = 1')
      .pluck(),
    endedAt: db.prepare<[number], number>('select at from events where seq = ?').pluck(),
    last: db
      .prepare<[string], number>(
        "select seq from events where stream = ? and type <> 'run.output_appended' " +
          'order by version desc limit 1',
      )
      .pluck(),
    /** A row with a damaged id is still at the position of this run. */
    drop: [
      db.prepare<[{ run_id: string }]>('delete from runs where run_id = @run_id'),
      db.prepare<[{ run_id: string }]>(
        'delete from runs where accepted_seq = (select seq from events ' +
          'where stream = @run_id and version = 1)',
      ),
    ],
    upsertRun: db.prepare<RunValues>(
      `insert into runs (run_id, accepted_seq, idempotency_key, finished, ended_at, state, provider, seq, data)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)
       on conflict (run_id) do update set idempotency_key = excluded.idempotency_key,
         finished = excluded.finished, ended_at = excluded.ended_at,
         state = excluded.state, provider = excluded.provider, seq = excluded.seq,
         data = excluded.data`,
    ),
    cloud: db.prepare<[{ run_id: string; accepted_seq: number }]>(
      'insert or ignore into cloud_runs values (@run_id, @accepted_seq)',
    ),
    place: db.prepare<
      [Pick<RunLine, 'run_id' | 'conversation' | 'origin'> & { accepted_seq: number }]
    >(
      'insert or ignore into run_places ' +
        'values (@run_id, @accepted_seq, coalesce(@conversation, @run_id), @origin)',
    ),
    upsertDigests: db.prepare<[string, Buffer, Buffer]>(
      `insert into run_digests (run_id, fields, data) values (?, ?, ?)
       on conflict (run_id) do update set fields = excluded.fields, data = excluded.data`,
    ),
  };
}
