import type Database from 'better-sqlite3';
import { SvcError } from '../../errors.ts';
import { codeOf } from './failure.ts';
import type { DamagedRun, FoundRun, SearchQuery } from './port.ts';
import { textOf } from './sqlite/texts-table.ts';
import { WordSearch } from './word-search.ts';

/**
 * The words of finished runs, in a full-text index beside the log. It follows from the rows of
 * `runs`, and reads the texts there. An index that an older version made has its own copy of them.
 *
 * 1. It follows the log in steps, behind the commits. `meta` has how far it is, so a kill costs at
 *    most a step. A search takes the steps that are due first.
 * 2. The words of a run go with its row, and are overwritten in the file. SQLite asks for the words
 *    that go, so they go before the row and its texts do.
 * 3. A damaged index is dropped, and stops no commit. The next open begins a new one.
 * 4. A new index of an old log is built in steps too, the newest runs first. Runs that end
 *    meanwhile are indexed as always.
 */

/** Characters of the prompt and of the answer that are indexed. More would delay commits. */
const TEXT_MAX = 65_536;
const textsIn = (data: string) =>
  ['prompt', 'output'].map((name) => `coalesce(substr(${textOf(name, data)}, 1, ${TEXT_MAX}), '')`);
const TEXTS = textsIn('data').join(', ');
/** Characters of a row, with those that are indexed. */
const charsOf = (data: string) =>
  `length(${data}) + case when json_valid(${data})
     then length(${textsIn(data).join(') + length(')}) else 0 end as chars`;
/** Whether the run at a position is in the index. */
const hasRun = (at: string) => `exists (select 1 from run_words_docsize where id = ${at})`;
const INDEX = `insert into run_words (rowid, prompt, answer)
  select accepted_seq, ${TEXTS} from runs
  where finished = 1 and json_valid(data) and not ${hasRun('accepted_seq')}`;
const NUMBER_IN_META = (name: string) =>
  `select cast(value as integer) from meta where name = '${name}'`;
/** Runs of an old log are indexed from this position on. Without a row, all are. */
const FROM = NUMBER_IN_META('words_from');
/** Runs that ended up to this event are indexed. Older versions indexed each run in its commit. */
const TO = NUMBER_IN_META('words_to');
const SET_TO = `insert or replace into meta (name, value) values ('words_to', ?)`;
const ALL_TO = SET_TO.replace('?', 'coalesce((select max(seq) from events), 0)');
/** Most runs of one step, and most characters of their rows. A commit may have to wait for it. */
const [STEP_RUNS, STEP_CHARS] = [100, 1_048_576];
/** Most events that a step looks at, and that another process may have to look at again. */
const [STEP_EVENTS, UNSAVED_EVENTS] = [5_000, 100_000];
/** Rows that a count looks at. The rest is estimated from them. */
const COUNT_ROWS = 2_000;

const DROP = `drop trigger if exists run_words_removed; 
drop table if exists run_words; drop view if exists run_words_source;`;
/** Removes the words of a row from the index. */
const FORGET = `insert into run_words (run_words, rowid, prompt, answer)
  select 'delete', old.accepted_seq, ${textsIn('old.data').join(', ')}
  where json_valid(old.data) and ${hasRun('old.accepted_seq')};`;
const TABLE = `
${DROP}
create view run_words_source as select accepted_seq, ${textsIn('data')
  .map((text, at) => `${text} as ${['prompt', 'answer'][at]}`)
  .join(', ')} from runs where finished = 1 and json_valid(data);
create virtual table run_words using fts5 (prompt, answer, content = 'run_words_source',
  content_rowid = 'accepted_seq', tokenize = 'unicode61 remove_diacritics 2');
insert into run_words (run_words, rank) values ('secure-delete', 1);
create trigger run_words_removed before delete on runs begin ${FORGET} end;
delete from meta where name = 'words_from';
insert into meta (name, value) select 'words_from', max(accepted_seq) + 1 from runs having count(*) > 0;
${ALL_TO};`;

/** Creates the index, unless it is there. `Words` fills it. */
export function addWords(db: Database.Database): void {
  if (!hasWords(db)) db.transaction(() => db.exec(TABLE))();
  else if (db.prepare(TO).get() === undefined) db.exec(ALL_TO);
  // A damaged index is found here, where the open closes the database.
  new Words(db);
}

/** Runs that ended behind an event, with that of their end. */
const ENDED = `from events e cross join runs r on r.run_id = e.stream
  where e.seq > ? and r.seq = e.seq and r.finished = 1`;

/** Finds a run that should be in the index. */
export const UNINDEXED = `select 1 from runs
  where run_id = ? and finished = 1 and json_valid(data)
    and accepted_seq >= coalesce((${FROM}), 0) and seq <= coalesce((${TO}), seq)
    and not ${hasRun('accepted_seq')}`;

function hasWords(db: Database.Database): boolean {
  return db.prepare(`select 1 from sqlite_schema where name = 'run_words'`).get() !== undefined;
}

/** Writes and searches the index. */
export class Words {
  private readonly db: Database.Database;
  private readonly statements: ReturnType<typeof prepare>;
  private readonly words: WordSearch;
  /** Runs that ended up to this event are indexed. On disk it may be less. */
  private to: number;
  private saved: number;
  private dropped = false;

  constructor(db: Database.Database) {
    this.db = db;
    this.statements = prepare(db);
    this.words = new WordSearch(db);
    this.to = this.statements.to.get() ?? 0;
    this.saved = this.to;
  }

  /**
   * Indexes finished runs, in the transaction of the caller. In one statement and in the order of
   * the index, so that the index is written once.
   */
  add(run_ids: readonly string[]): void {
    if (!this.dropped) this.statements.index.run(JSON.stringify(run_ids));
  }

  /** One step behind a log with this end, in a transaction of `write`. True if more is due. */
  follow(last_seq: number, write: (work: () => void) => void): boolean {
    if (this.dropped || this.to >= last_seq) return false;
    const { runs, to } = this.due(last_seq);
    if (runs.length > 0 || to - this.saved > UNSAVED_EVENTS) {
      write(() => {
        if (runs.length > 0) this.add(runs);
        this.statements.setTo.run(String(to));
      });
      this.saved = to;
    }
    this.to = to;
    return to < last_seq;
  }

  /** The runs of the next step, and the last event that it looks at. */
  private due(last_seq: number): { runs: string[]; to: number } {
    const end = Math.min(last_seq, this.to + STEP_EVENTS);
    const runs: string[] = [];
    let [to, chars] = [this.to, 0];
    for (const row of this.statements.ended.iterate(this.to, end)) {
      chars += row.chars;
      if (runs.length === STEP_RUNS || (runs.length > 0 && chars > STEP_CHARS)) return { runs, to };
      runs.push(row.run_id);
      to = row.seq;
    }
    return { runs, to: end };
  }

  /** One step of building the index of an old log. True if there is more to do. */
  build(): boolean {
    if (this.dropped || this.builtFrom() === null) return false;
    return this.db.transaction(() => this.buildStep()).immediate();
  }

  private buildStep(): boolean {
    const { rows, range, moved, done } = this.statements;
    const before = this.builtFrom() ?? 0;
    let from = before;
    let chars = 0;
    for (const row of rows.iterate(before, STEP_RUNS)) {
      chars += row.chars;
      if (from < before && chars > STEP_CHARS) break;
      from = row.accepted_seq;
    }
    if (from === before) {
      done.run();
      return false;
    }
    range.run(from, before);
    moved.run(String(from));
    return true;
  }

  /**
   * How many finished runs a search does not find yet. Of many it is an estimate, so that it costs
   * the same in each log.
   */
  unindexed(): number {
    if (this.dropped) return 0;
    const { behind, old, last, first } = this.statements;
    const from = this.builtFrom() ?? 0;
    const { to } = this;
    return (
      estimate(behind.get(to, from), (last.get() ?? to) - to, (at) => at - to) +
      estimate(old.get(from), from - (first.get() ?? from), (at) => from - at)
    );
  }

  /** Whether a log with this end is further than a search may follow. */
  isFar(last_seq: number): boolean {
    return last_seq - this.to > FAR_EVENTS;
  }

  /** Null if an old log has no run without index. */
  private builtFrom(): number | null {
    return this.statements.from.get() ?? null;
  }

  /** Newest first. Throws store_corrupt until the next open if the index is damaged. */
  find(query: SearchQuery): (FoundRun | DamagedRun)[] {
    if (this.dropped) throw damagedIndexError();
    try {
      return this.words.find(query);
    } catch (error) {
      if (!this.dropIfDamaged(error)) throw error;
      throw damagedIndexError(error);
    }
  }

  /**
   * Drops the index if the error may be of its damage, and returns whether it did. A damaged index
   * fails at the commit, also as a broken constraint. The next open builds it again.
   */
  dropIfDamaged(error: unknown): boolean {
    if (this.dropped || !/^SQLITE_(CORRUPT_VTAB|CONSTRAINT)/.test(codeOf(error))) return false;
    this.db.transaction(() => this.db.exec(DROP)).exclusive();
    this.dropped = true;
    return true;
  }
}

/** Runs among the rows that a count has looked at, and the last of these. */
interface Counted {
  runs: number;
  looked: number;
  at: number | null;
}

/** In all positions there are as many as in those that were looked at. */
function estimate(counted: Counted | undefined, all: number, looked: (at: number) => number) {
  if (counted === undefined || counted.at === null || counted.looked < COUNT_ROWS)
    return counted?.runs ?? 0;
  return Math.round((counted.runs * all) / Math.max(1, looked(counted.at)));
}

function prepare(db: Database.Database) {
  return {
    index: db.prepare<[string]>(
      `${INDEX} and run_id in (select value from json_each(+?)) order by accepted_seq`,
    ),
    to: db.prepare<[], number>(TO).pluck(),
    setTo: db.prepare<[string]>(SET_TO),
    ended: db.prepare<[number, number], { seq: number; run_id: string; chars: number }>(
      `select e.seq, r.run_id, ${charsOf('r.data')} ${ENDED} and e.seq <= ? order by e.seq`,
    ),
    behind: db.prepare<[number, number], Counted>(
      `select count(r.run_id) as runs, count(*) as looked, max(e.seq) as at
         from (select seq, stream from events where seq > ? order by seq limit ${COUNT_ROWS}) e
         left join runs r on r.run_id = e.stream and r.seq = e.seq and r.finished = 1
           and r.accepted_seq >= ?`,
    ),
    last: db.prepare<[], number | null>('select max(seq) from events').pluck(),
    first: db.prepare<[], number | null>('select min(accepted_seq) from runs').pluck(),
    from: db.prepare<[], number>(FROM).pluck(),
    old: db.prepare<[number], Counted>(
      `select count(*) as runs, count(*) as looked, min(accepted_seq) as at
         from (select accepted_seq from runs where finished = 1 and accepted_seq < ?
           order by accepted_seq desc limit ${COUNT_ROWS})`,
    ),
    rows: db.prepare<[number, number], { accepted_seq: number; chars: number }>(
      `select accepted_seq, ${charsOf('data')} from runs
         where finished = 1 and accepted_seq < ? order by accepted_seq desc limit ?`,
    ),
    range: db.prepare<[number, number]>(
      `${INDEX} and accepted_seq >= ? and accepted_seq < ? order by accepted_seq`,
    ),
    moved: db.prepare<[string]>(`update meta set value = ? where name = 'words_from'`),
    done: db.prepare<[]>(`delete from meta where name = 'words_from'`),
  };
}

function damagedIndexError(cause?: unknown): SvcError {
  return new SvcError('store_corrupt', 'The index of the words of runs is damaged.', {
    cause,
    hint: 'The next start of the daemon builds it again: svc restart',
  });
}

interface WordStepsOptions {
  words: Words;
  /** False after a failure that ends all writing, and after the close. */
  canWrite(): boolean;
  /** Position of the last durable event. */
  lastSeq(): number;
  /** Does the work in a transaction of the log. */
  write(work: () => void): void;
  /** Null, or the failure that ends all writing. */
  rollBack(): Error | null;
  /** Any failure but a full disk ends all writing. */
  refuse(thrown: unknown): void;
}

/**
 * The steps of the index of words. The thread of the log takes them between its calls.
 *
 * 1. A step that fails for want of space is taken again later. Any other failure ends all writing.
 * 2. A search, a count and the close first take the steps that are due, where these are few. Of a
 *    log that is far ahead they take one: the thread takes the others.
 */
export class WordSteps {
  private readonly options: WordStepsOptions;

  constructor(options: WordStepsOptions) {
    this.options = options;
  }

  /** One step behind the log. True if more is due. */
  follow(): boolean {
    const { words, lastSeq, write } = this.options;
    return this.step(() => words.follow(lastSeq(), write));
  }

  /** One step for the runs of an old log without the index. True if there is more to do. */
  build(): boolean {
    return this.step(() => this.options.words.build());
  }

  find(query: SearchQuery): (FoundRun | DamagedRun)[] {
    this.catchUp();
    return this.options.words.find(query);
  }

  /** How many finished runs a search does not find yet. */
  unindexed(): number {
    this.catchUp();
    return this.options.words.unindexed();
  }

  /** True if the index may be damaged. Then it is dropped, and the work can be repeated. */
  drops(thrown: unknown): boolean {
    const { rollBack, words } = this.options;
    return rollBack() === null && words.dropIfDamaged(thrown);
  }

  /** A thread that follows the log leaves few steps. */
  catchUp(): void {
    const { words, lastSeq } = this.options;
    const most = words.isFar(lastSeq()) ? 1 : CATCH_UP_STEPS;
    for (let steps = 0; steps < most && this.follow(); steps += 1);
  }

  private step(take: () => boolean): boolean {
    const { canWrite, refuse } = this.options;
    try {
      return canWrite() && take();
    } catch (error) {
      if (!this.drops(error)) refuse(error);
      return false;
    }
  }
}

const CATCH_UP_STEPS = 20;
/** A step has at most 100 runs, and a short run has four events. */
const FAR_EVENTS = CATCH_UP_STEPS * STEP_RUNS * 4;
