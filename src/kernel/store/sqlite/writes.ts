import type Database from 'better-sqlite3';
import { formatOf } from '../../../../machines/events.ts';
import { hasCode } from '../../../errors.ts';
import { columnOf, EVENT_NAMES } from '../columns.ts';
import { chain, checkContinuity } from '../continuity.ts';
import { codeOf, isDamage } from '../failure.ts';
import type { Mark } from '../files/high-water.ts';
import { type CommitRows, conflict, type EventRow, OF_REQUEST, type RunLine } from '../row.ts';
import { dataDigest, fieldsDigest, RUN_FIELDS } from '../run-digest.ts';
import { raiseFormat } from '../schema.ts';
import { compactEvent, compactRun, memberOf, referencesIn } from '../texts.ts';
import { UsageTable } from '../usage.ts';
import type { Words } from '../words.ts';
import { REFERRING, Texts } from './texts-table.ts';

/** Writes commits, in the transaction of the caller. */
export class CommitWrites {
  readonly runs: RunWrites;
  readonly usage: UsageTable;
  readonly texts: Texts;
  private readonly db: Database.Database;
  private readonly lastVersion: Database.Statement<[string], number>;
  private readonly insertEvent: Database.Statement<unknown[]>;

  constructor(db: Database.Database, words: Pick<Words, 'add'>) {
    this.db = db;
    this.texts = new Texts(db);
    this.runs = new RunWrites(db, words, this.texts);
    this.usage = new UsageTable(db);
    // `+?`: SQLite plans a statement again for each value of a bare parameter that its plan may
    // depend on. That costs ten times the search.
    this.lastVersion = db
      .prepare<[string], number>('select max(version) from events where stream = +?')
      .pluck();
    this.insertEvent = db.prepare(insertInto('events', [...EVENT_NAMES, 'hash']));
  }

  /** `compact`: of the data of an event. Returns the new end of the log. Throws store_conflict. */
  write({ events, runs, embeddings }: CommitRows, last: Mark, compact = compactEvent): Mark {
    checkContinuity({ events, runs }, last.seq, (stream) => this.lastVersion.get(stream) ?? 0);
    let end = last;
    for (const given of events) {
      const format = formatOf(given.type);
      if (format !== null) raiseFormat(this.db, format);
      const compacted = compact(given.data);
      this.texts.keep(compacted);
      const event = { ...given, data: compacted.text };
      end = { seq: event.seq, hash: chain(end.hash, event) };
      // In the order of the columns: SQLite looks for each name of a named value.
      this.insertEvent.run(...EVENT_NAMES.map((name) => event[name]), Buffer.from(end.hash, 'hex'));
    }
    for (const { usage } of runs) if (usage !== null) this.usage.add(usage);
    for (const usage of embeddings) this.usage.addEmbedding(usage);
    for (const line of runs) this.runs.write(line, events);
    return end;
  }
}

/** Writes rows of runs with their digests. The index of words follows later. */
class RunWrites {
  private readonly db: Database.Database;
  private readonly words: Pick<Words, 'add'>;
  private readonly texts: Texts;
  private readonly statements: ReturnType<typeof prepare>;

  constructor(db: Database.Database, words: Pick<Words, 'add'>, texts: Texts) {
    this.db = db;
    this.words = words;
    this.texts = texts;
    this.statements = prepare(db);
  }

  /**
   * In the transaction of the caller, after these events. Throws store_conflict if another run has
   * the key.
   */
  write(line: RunLine, events: readonly EventRow[] = []): void {
    const { accepted, endedAt, before, upsertRun, upsertDigests, cloud, place } = this.statements;
    const { run_id, seq, conversation, origin } = line;
    const compact = compactRun(this.wholeOf(line));
    const data = compact.text;
    const replaced = before.get(run_id);
    this.texts.keep(compact);
    const row = {
      ...line,
      accepted_seq: accepted.get(run_id) ?? seq,
      ended_at: line.finished === 1 ? (endOf(line, events) ?? endedAt.get(seq) ?? null) : null,
    };
    try {
      upsertRun.run(...RUN_FIELDS.map((name) => row[name]), data);
    } catch (error) {
      if (codeOf(error) !== 'SQLITE_CONSTRAINT_UNIQUE') throw error;
      throw conflict(`The idempotency key of the run ${run_id} is that of another run.`, error);
    }
    if (replaced !== undefined) this.texts.release(replaced);
    if (line.cloud === 1) cloud.run(run_id, row.accepted_seq);
    if (conversation !== null || origin !== null)
      place.run(run_id, row.accepted_seq, conversation ?? run_id, origin);
    upsertDigests.run(run_id, fieldsDigest(row), dataDigest(run_id, data));
  }

  /** The data with the messages of the first event, if they were left to it. */
  private wholeOf({ run_id, data }: RunLine): string {
    const at = data.indexOf(OF_REQUEST);
    if (at < 0) return data;
    const messages = this.messagesOf(run_id);
    if (messages === null) throw conflict(`The request of the run ${run_id} is not there.`);
    return `${data.slice(0, at)}"messages":${messages}${data.slice(at + OF_REQUEST.length)}`;
  }

  /** The messages of a run, with references. Null: its first event does not have them. */
  private messagesOf(run_id: string): string | null {
    try {
      const request = memberOf(this.statements.request.get(run_id) ?? '', 'request') ?? '';
      const [digest] = request.startsWith('{') ? [] : referencesIn(request);
      return memberOf(digest === undefined ? request : this.texts.read(digest), 'messages');
    } catch (error) {
      if (isDamage(error) || hasCode(error, 'store_corrupt')) return null;
      throw error;
    }
  }

  /** Replaces a row. False if the run has newer events. */
  mend(line: RunLine): boolean {
    const { last, drop } = this.statements;
    const mend = this.db.transaction(() => {
      if (last.get(line.run_id) !== line.seq) return false;
      // Its indexes may be damaged, so it is deleted by each of them.
      for (const statement of drop)
        for (const data of statement.all({ run_id: line.run_id })) this.texts.releaseDamaged(data);
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

function insertInto(table: string, columns: readonly string[]): string {
  return `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`;
}

function prepare(db: Database.Database) {
  const replaced = RUN_FIELDS.filter((name) => columnOf(name).later === undefined);
  return {
    accepted: db
      .prepare<[string], number>('select seq from events where stream = ? and version = 1')
      .pluck(),
    request: db
      .prepare<[string], string>(
        `select data from events where stream = ? and version = 1 and type = 'run.accepted'`,
      )
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
      'run_id = @run_id',
      'accepted_seq = (select seq from events where stream = @run_id and version = 1)',
    ].map((where) =>
      db
        .prepare<[{ run_id: string }], string>(`delete from runs where ${where} returning data`)
        .pluck(),
    ),
    /** The data of the row to replace. A row without a reference needs no look. */
    before: db
      .prepare<[string], string>(`select data from runs where run_id = ? and ${REFERRING}`)
      .pluck(),
    upsertRun: db.prepare<unknown[]>(
      `${insertInto('runs', [...RUN_FIELDS, 'data'])} on conflict (run_id) do update set ${[...replaced, 'data'].map((name) => `${name} = excluded.${name}`).join(', ')}`,
    ),
    cloud: db.prepare<[string, number]>('insert or ignore into cloud_runs values (?, ?)'),
    place: db.prepare<[string, number, string, string | null]>(
      'insert or ignore into run_places values (?, ?, ?, ?)',
    ),
    upsertDigests: db.prepare<[string, Buffer, Buffer]>(
      `insert into run_digests (run_id, fields, data) values (?, ?, ?)
       on conflict (run_id) do update set fields = excluded.fields, data = excluded.data`,
    ),
  };
}
