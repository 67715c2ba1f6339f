import type Database from 'better-sqlite3';
import { SvcError } from '../errors.ts';
import { codeOf } from './failure.ts';
import type { FoundRun, SearchQuery } from './port.ts';
import { BEGUN_MAX, isBeginning, tooManyBegin } from './search-terms.ts';
import { snippetOf } from './snippet.ts';

/**
 * The words of finished runs, in a full-text index beside the log. It follows from the rows of
 * `runs`, and has its own copy of what it indexes.
 *
 * 1. A run is indexed once, in the transaction of its last event.
 * 2. What it has of a run goes with the row, and is overwritten in the file.
 * 3. A damaged index is dropped, and stops no commit. The next open begins a new one.
 * 4. A new index of an old log is built in steps, the newest runs first. `meta` has how far it is,
 *    so a kill costs no step. Runs that end meanwhile are indexed as always.
 */

/** Characters of the prompt and of the answer that are indexed. More would delay commits. */
const TEXT_MAX = 65_536;
const TEXTS = ['prompt', 'output']
  .map((name) => `coalesce(substr(data ->> '$.record.${name}', 1, ${TEXT_MAX}), '')`)
  .join(', ');
const INDEX = `insert or replace into run_words (rowid, prompt, answer)
  select accepted_seq, ${TEXTS} from runs where finished = 1 and json_valid(data)`;
/** Runs from this position on are indexed. Without a row, all are. */
const FROM = `select cast(value as integer) from meta where name = 'words_from'`;
/** Most runs of one step, and most characters of their rows. A commit may have to wait for it. */
const [STEP_RUNS, STEP_CHARS] = [100, 1_048_576];

const DROP = 'drop trigger if exists run_words_removed; drop table if exists run_words;';
const TABLE = `
create virtual table run_words using fts5 (prompt, answer, tokenize = 'unicode61 remove_diacritics 2');
insert into run_words (run_words, rank) values ('secure-delete', 1);
create trigger run_words_removed after delete on runs begin delete from run_words where rowid = old.accepted_seq; end;
delete from meta where name = 'words_from';
insert into meta (name, value) select 'words_from', max(accepted_seq) + 1 from runs having count(*) > 0;`;

/** Creates the index, unless it is there. `Words.build` fills it. */
export function addWords(db: Database.Database): void {
  if (!hasWords(db)) db.transaction(() => db.exec(TABLE))();
}

/** Finds a run whose indexed texts are not those of its row. */
export const UNINDEXED = `select 1 from runs
  where run_id = ? and finished = 1 and json_valid(data)
    and accepted_seq >= coalesce((${FROM}), 0) and not exists (
    select 1 from run_words w where w.rowid = accepted_seq and (w.prompt, w.answer) = (${TEXTS}))`;

function hasWords(db: Database.Database): boolean {
  return db.prepare(`select 1 from sqlite_schema where name = 'run_words'`).get() !== undefined;
}

/** Writes and searches the index. */
export class Words {
  private readonly db: Database.Database;
  private readonly index: Database.Statement<[string]>;
  private readonly from: Database.Statement<[], number>;
  private search: Database.Statement<[SearchParams], FoundRow> | null = null;
  private steps: ReturnType<typeof prepareSteps> | null = null;
  private begun: Database.Statement<[string, string, number], string> | null = null;
  private dropped = false;

  constructor(db: Database.Database) {
    this.db = db;
    this.index = db.prepare(
      `${INDEX} and run_id in (select value from json_each(+?)) order by accepted_seq`,
    );
    this.from = db.prepare<[], number>(FROM).pluck();
  }

  /**
   * Indexes finished runs, in the transaction of the caller. In one statement and in the order of
   * the index, so that the index is written once.
   */
  add(run_ids: readonly string[]): void {
    if (!this.dropped) this.index.run(JSON.stringify(run_ids));
  }

  /** One step of building the index. True if there is more to do. */
  build(): boolean {
    if (this.dropped || this.builtFrom() === null) return false;
    return this.db.transaction(() => this.buildStep()).immediate();
  }

  private buildStep(): boolean {
    this.steps ??= prepareSteps(this.db);
    const { rows, range, moved, done } = this.steps;
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

  /** How many finished runs a search does not find yet. */
  unindexed(): number {
    const from = this.dropped ? null : this.builtFrom();
    if (from === null) return 0;
    const count = 'select count(*) from runs where finished = 1 and accepted_seq < ?';
    return this.db.prepare<[number], number>(count).pluck().get(from) ?? 0;
  }

  /** Null if the index is whole. */
  private builtFrom(): number | null {
    return this.from.get() ?? null;
  }

  /** Newest first. Throws store_corrupt until the next open if the index is damaged. */
  find({ terms, before, limit }: SearchQuery): FoundRun[] {
    if (this.dropped) throw damaged();
    try {
      const match = this.matchOf(terms);
      if (match === null) return [];
      const params = { match, before: before ?? null, limit };
      this.search ??= this.db.prepare<[SearchParams], FoundRow>(SEARCH);
      return this.search
        .all(params)
        .map(({ prompt, answer, ...row }) => ({ ...row, ...snippetOf([prompt, answer]) }));
    } catch (error) {
      if (!this.dropIfDamaged(error)) throw error;
      throw damaged(error);
    }
  }

  /**
   * The terms as FTS5 reads them; null if no word begins like one of them. FTS5 would merge all
   * words with a beginning, which can take seconds. So a bounded number of them is looked up here.
   */
  private matchOf(terms: readonly string[]): string | null {
    let left = BEGUN_MAX;
    const all: string[] = [];
    for (const term of terms) {
      const begun = isBeginning(term) ? this.wordsLike(term, left + 1) : [term];
      if (begun.length === 0) return null;
      if (isBeginning(term)) left -= begun.length;
      if (left < 0) throw tooManyBegin();
      all.push(`(${begun.map(quoted).join(' OR ')})`);
    }
    return all.join(' AND ');
  }

  /** The term with each word of the index that its last word may become. */
  private wordsLike(term: string, limit: number): string[] {
    if (this.begun === null) {
      this.db.exec(
        'create virtual table temp.words_of_runs using fts5vocab (main, run_words, row)',
      );
      this.begun = this.db
        .prepare<[string, string, number], string>(
          'select term from temp.words_of_runs where term >= ? and term <= ? order by term limit ?',
        )
        .pluck();
    }
    const [, before = '', last = ''] = /^([\s\S]*?)([\p{L}\p{N}]+)\*$/u.exec(term) ?? [];
    const folded = last.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
    return this.begun.all(folded, `${folded}\u{10ffff}`, limit).map((word) => before + word);
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

function prepareSteps(db: Database.Database) {
  return {
    rows: db.prepare<[number, number], { accepted_seq: number; chars: number }>(
      `select accepted_seq, length(data) as chars from runs
         where finished = 1 and accepted_seq < ? order by accepted_seq desc limit ?`,
    ),
    range: db.prepare<[number, number]>(
      `${INDEX} and accepted_seq >= ? and accepted_seq < ? order by accepted_seq`,
    ),
    moved: db.prepare<[string]>(`update meta set value = ? where name = 'words_from'`),
    done: db.prepare<[]>(`delete from meta where name = 'words_from'`),
  };
}

function damaged(cause?: unknown): SvcError {
  return new SvcError('store_corrupt', 'The index of the words of runs is damaged.', {
    cause,
    hint: 'The next start of the daemon builds it again: svc restart',
  });
}

interface SearchParams {
  match: string;
  before: string | null;
  limit: number;
}
type FoundRow = Omit<FoundRun, 'snippet' | 'matches'> & { prompt: string; answer: string };

/**
 * The snippet is made here: `snippet` of FTS5 compares each match in a text with all others. A text
 * of one repeated word would take minutes.
 */
const SEARCH = `select r.run_id, r.state, r.provider,
    r.data ->> '$.model' as model, r.data ->> '$.created_at' as created_at,
    coalesce(r.data ->> '$.conversation', r.run_id) as conversation,
    highlight(run_words, 0, char(2), char(3)) as prompt,
    highlight(run_words, 1, char(2), char(3)) as answer
  from run_words cross join runs r on r.accepted_seq = run_words.rowid
  where run_words match @match
    and (@before is null or run_words.rowid < (select accepted_seq from runs where run_id = @before))
  order by run_words.rowid desc limit @limit`;

/** A term as FTS5 reads it: in quotes, nothing of it is an operator. */
function quoted(term: string): string {
  return `"${term.replaceAll('"', '""')}"`;
}
