import type Database from 'better-sqlite3';
import { hasCode, type SvcError } from '../../../errors.ts';
import { FILTER_COLUMNS } from '../columns.ts';
import { isDamage } from '../failure.ts';
import {
  ALL_RUNS,
  ASKER,
  CONVERSATION_OF,
  CONVERSATION_USAGE,
  FIRST_TURNS,
  inRuns,
  KINDS,
  LAST_OF_ASKER,
  LAST_OF_BOTH,
  LAST_OF_HOME,
  LAST_OF_ORIGIN,
  LATEST,
  ofAsker,
  RUN_SOURCES,
  type RunSource,
} from '../places.ts';
import type { ConversationSums, DamagedRun, RunBound, RunHead, RunQuery } from '../port.ts';
import {
  damagedRun,
  fieldsProblem,
  STORED_FIELDS,
  STORED_RUN,
  type StoredFields,
  type StoredRun,
  storedProblem,
  storedRuns,
} from '../projection.ts';
import { boundsQuery, kindOf } from '../run-bounds.ts';
import { formOf, RECORD_ALONE, type RunForm, SHORT_RUN, WHOLE_RUN } from '../short-run.ts';
import { USES } from '../texts.ts';
import { atMost, EventReads } from './event-reads.ts';
import { ReadableRuns } from './readable.ts';

type ListParams = {
  [column: string]: string | number | null;
  before: string | null;
  conversation: string | null;
  asked_by: string | null;
  limit: number;
};

/** Read from the index alone. */
const POSITIONS = `select accepted_seq from runs indexed by runs_newest
  where (@at is null or accepted_seq < @at) and (@state is null or state = @state)
    and (@provider is null or provider = @provider)
    and (@asked_by is null or ${ofAsker('accepted_seq')}) order by accepted_seq desc`;

type SourceName = keyof typeof RUN_SOURCES;
const SOURCES = Object.keys(RUN_SOURCES) as SourceName[];

/** Reads runs, with prepared statements. A damaged row is store_corrupt, with its `run_id`. */
export class Reads extends EventReads {
  /** The statement of each list, by its condition. */
  private readonly lists = new Map<string, Database.Statement<[ListParams], StoredRun>>();
  private readonly run: Database.Statement<[string], StoredRun>;
  private readonly head: Database.Statement<[string], StoredFields>;
  private readonly runByKey: Database.Statement<[string], StoredRun>;
  /** Prepared when first asked: a copy of a log may lack its table. */
  private place: Database.Statement<[string], string> | null = null;
  private readonly accepted: Database.Statement<[string], number>;

  /** Lists omit rows in a damaged page. */
  protected readonly omitsDamage: boolean;

  constructor(db: Database.Database, pageBytes: number, omitsDamage = true) {
    super(db, pageBytes);
    this.omitsDamage = omitsDamage;
    this.run = db.prepare(`${STORED_RUN} where r.run_id = ?`);
    this.head = db.prepare(`${STORED_FIELDS} where r.run_id = ?`);
    this.runByKey = db.prepare(`${STORED_RUN} where r.idempotency_key = ?`);
    this.accepted = db
      .prepare<[string], number>(
        `select seq from events where stream = ? and version = 1 and type = 'run.accepted'`,
      )
      .pluck();
  }

  /** The stored data of each run. A damaged row does not hide the others. */
  listRuns(query: RunQuery): (string | DamagedRun)[] {
    const { before, cloud, conversation, limit } = query;
    const { latest = false, asked_by, unfinished = false } = query;
    const columns = FILTER_COLUMNS.filter((name) => query[name] !== undefined);
    const kind = kindOf(query.state);
    const given = { conversation, asked_by, cloud: cloud === true || undefined };
    const [first, ...others] = SOURCES.filter((name) => given[name] !== undefined);
    const conditions = [
      ...columns.map((name) => `${inRuns(name, 'r.')} = @${name}`),
      ...(kind === null ? [] : [KINDS[kind]]),
      ...others.map((name) => RUN_SOURCES[name].also),
      ...(latest ? [LATEST] : []),
      ...(unfinished ? ['r.finished = 0'] : []),
    ];
    const params: ListParams = {
      before: before ?? null,
      ...Object.fromEntries(FILTER_COLUMNS.map((name) => [name, query[name] ?? null])),
      conversation: conversation ?? null,
      asked_by: asked_by ?? null,
      limit: atMost(limit),
    };
    try {
      return this.pageOf(this.listFrom(first, params, conditions), query);
    } catch (error) {
      if (!isDamage(error) || !this.omitsDamage) throw error;
      const all = first === undefined ? conditions : [RUN_SOURCES[first].also, ...conditions];
      return this.pageOf(this.readable(params, all), query);
    }
  }

  private *listFrom(
    name: SourceName | undefined,
    params: ListParams,
    conditions: readonly string[],
  ): Iterable<StoredRun> {
    let { limit } = params;
    const sources: RunSource[] = [name === undefined ? ALL_RUNS : RUN_SOURCES[name]];
    if (name === 'conversation') sources.push(FIRST_TURNS);
    for (const source of sources) {
      if (limit === 0) return;
      const list = this.listWhere(source, params.before !== null, conditions);
      for (const row of list.iterate({ ...params, limit })) {
        limit -= 1;
        yield row;
      }
    }
  }

  /** The same rows, without those in damaged pages. An index says where they are. */
  private *readable(params: ListParams, conditions: string[]): Iterable<StoredRun | DamagedRun> {
    const rows = new ReadableRuns(this.db);
    const one = this.listWhere(ALL_RUNS, false, ['r.accepted_seq = @at', ...conditions]);
    const before = params.before === null ? null : rows.positionOf(params.before);
    const positions = this.db
      .prepare<[ListParams], number>(POSITIONS)
      .pluck()
      .all({ ...params, at: before });
    let left = params.limit;
    for (const row of rows.each(positions, (at) => one.get({ ...params, at, limit: 1 }))) {
      yield row;
      left -= 1;
      if (left === 0) return;
    }
  }

  private pageOf(
    rows: Iterable<StoredRun | DamagedRun>,
    { short = false }: RunQuery,
  ): (string | DamagedRun)[] {
    const page: (string | DamagedRun)[] = [];
    let size = 0;
    for (const row of rows) {
      if ('damage' in row) {
        page.push(row);
        continue;
      }
      if (page.length > 0 && size + row.data.length > this.pageBytes) break;
      const data = this.dataOf(row, short ? SHORT_RUN : WHOLE_RUN);
      size += typeof data === 'string' ? data.length : 0;
      if (page.length > 0 && size > this.pageBytes) break;
      page.push(typeof data === 'string' ? data : { run_id: row.run_id, damage: data.message });
    }
    return page;
  }

  /** The data of a run, or the error of its damage. */
  protected dataOf(row: StoredRun, form: RunForm): string | SvcError {
    const problem = storedProblem(row);
    if (problem !== null) return damagedRun(row.run_id, problem);
    try {
      return form.read(this.texts.expand(form.needs(row.data)));
    } catch (error) {
      const isLost = hasCode(error, 'store_corrupt') || (isDamage(error) && this.omitsDamage);
      if (!isLost) throw error;
      return damagedRun(row.run_id, USES);
    }
  }

  private wholeOf(row: StoredRun, form = WHOLE_RUN): string {
    const data = this.dataOf(row, form);
    if (typeof data === 'string') return data;
    throw data;
  }

  /** Prepared when first asked: a copy of a log may lack a table. */
  private listWhere(
    { runs, at, where }: RunSource,
    isAfter: boolean,
    conditions: readonly string[],
  ): Database.Statement<[ListParams], StoredRun> {
    const older = `${at} < (select accepted_seq from runs where run_id = @before)`;
    const all = [where, ...(isAfter ? [older] : []), ...conditions].join(' and ');
    const query = `${storedRuns(runs)} where ${all} order by ${at} desc limit @limit`;
    const known = this.lists.get(query) ?? this.db.prepare(query);
    this.lists.set(query, known);
    return known;
  }

  lastRun(origin: string | null, asked_by?: string | null): string | null {
    if (asked_by !== undefined) {
      const newest = asked_by === null ? LAST_OF_HOME : LAST_OF_ASKER;
      const query = this.db.prepare<[object], string>(origin === null ? newest : LAST_OF_BOTH);
      return query.pluck().get({ origin, asked_by }) ?? null;
    }
    return origin === null
      ? this.newestRun()
      : (this.db.prepare<[string], string>(LAST_OF_ORIGIN).pluck().get(origin) ?? null);
  }

  askerOf(run_id: string): string | null {
    return this.db.prepare<[string], string | null>(ASKER).pluck().get(run_id) ?? null;
  }

  /** Null only if the log has no such run: a missing row is damage. */
  getRun(run_id: string, only?: 'answer'): string | null {
    const row = this.run.get(run_id);
    return row === undefined ? this.missing(run_id) : this.wholeOf(row, formOf(only));
  }

  readRecord(run_id: string): Uint8Array | null {
    const row = this.run.get(run_id);
    if (row === undefined) return this.missing(run_id);
    const record = this.wholeOf(row, RECORD_ALONE);
    return row.finished === 1 ? new TextEncoder().encode(record) : null;
  }

  runHead(run_id: string): RunHead | null {
    const found = this.head.get(run_id);
    if (found === undefined) return this.missing(run_id);
    const problem = fieldsProblem(found);
    if (problem !== null) throw damagedRun(run_id, problem);
    this.place ??= this.db.prepare<[string], string>(CONVERSATION_OF).pluck();
    const conversation = this.place.get(run_id) ?? run_id;
    const { state, seq } = found;
    return { state, finished: found.finished === 1, seq, conversation };
  }

  conversationUsage(conversation: string): ConversationSums {
    const query = this.db.prepare<[{ conversation: string }], ConversationSums>(CONVERSATION_USAGE);
    return query.get({ conversation }) as ConversationSums;
  }

  getRunByKey(idempotency_key: string): string | null {
    const row = this.runByKey.get(idempotency_key);
    return row === undefined ? null : this.wholeOf(row);
  }

  unfinishedRuns(state?: string): string[] {
    return this.db
      .prepare<[{ state: string | null }], string>(
        `select run_id from runs where finished = 0 and (@state is null or state = @state)
           order by accepted_seq`,
      )
      .pluck()
      .all({ state: state ?? null });
  }

  runsAt(seq: number, limit: number): string[] {
    const query = `select run_id from (
        select run_id, accepted_seq from runs where finished = 0 and accepted_seq <= @seq
        union all select run_id, accepted_seq from runs
          where finished = 1 and accepted_seq <= @seq and seq >= @seq
      ) order by accepted_seq limit @limit`;
    return this.db
      .prepare<[{ seq: number; limit: number }], string>(query)
      .pluck()
      .all({ seq, limit: atMost(limit) });
  }

  runBounds(boot_id: string, after: number, to: number): RunBound[] {
    const query = boundsQuery('events', ['@boot_id', '@after', '@to']);
    return this.db.prepare<[object], RunBound>(query).all({ boot_id, after, to });
  }

  startedStreams(fromSeq: number, toSeq: number, limit: number): string[] {
    const query =
      "select stream from events where version = 1 and type <> 'run.accepted' " +
      'and seq between ? and ? order by seq limit ?';
    return this.db
      .prepare<[number, number, number], string>(query)
      .pluck()
      .all(fromSeq, toSeq, atMost(limit));
  }

  countRuns(): { finished: number; unfinished: number } {
    const count = (where: string) =>
      this.db.prepare<[], number>(`select count(*) from runs ${where}`).pluck().get() ?? 0;
    const unfinished = count('where finished = 0');
    return { finished: count('') - unfinished, unfinished };
  }

  /** Null in an empty log. */
  firstSeq(): number | null {
    return this.db.prepare<[], number | null>('select min(seq) from events').pluck().get() ?? null;
  }

  lastBootId(): string | null {
    return (
      this.db
        .prepare<[], string>(
          `select boot_id from events where type = 'daemon.boot_started' order by seq desc limit 1`,
        )
        .pluck()
        .get() ?? null
    );
  }

  private missing(run_id: string): null {
    if (this.accepted.get(run_id) !== undefined) throw damagedRun(run_id, 'is missing');
    return null;
  }
}
