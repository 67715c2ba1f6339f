import type Database from 'better-sqlite3';
import { isDamage } from './failure.ts';
import { ofAsker } from './places.ts';
import type { DamagedRun, FoundRun, SearchQuery } from './port.ts';
import { BEGUN_MAX, isBeginning, tooManyBegin } from './search-terms.ts';
import { snippetOf } from './snippet.ts';
import { ReadableRuns } from './sqlite/readable.ts';

/** Searches the index of words. */
export class WordSearch {
  private readonly db: Database.Database;
  private readonly searches = new Map<string, Database.Statement<[SearchParams], FoundRow>>();
  private begun: Database.Statement<[string, string, number], string> | null = null;

  constructor(db: Database.Database) {
    this.db = db;
  }

  /** Newest first. Throws the error of SQLite if the index is damaged. */
  find({ terms, before, asked_by, limit }: SearchQuery): (FoundRun | DamagedRun)[] {
    const match = this.matchOf(terms);
    if (match === null) return [];
    const whose = asked_by === undefined ? 'true' : OF_ASKER;
    const own = asked_by === undefined ? {} : { asked_by };
    try {
      const all = this.searchFor(whose).all({ match, before: before ?? null, limit, ...own });
      return all.map(found);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return this.readable(whose, { match, before: before ?? null, limit, ...own });
    }
  }

  /** The same runs, without those in damaged pages. */
  private readable(whose: string, params: SearchParams): (FoundRun | DamagedRun)[] {
    const rows = new ReadableRuns(this.db);
    const at = params.before === null ? null : rows.positionOf(params.before);
    const positions = this.db
      .prepare<[SearchParams & { at: number | null }], number>(
        `select rowid from run_words where run_words match @match and ${whose}
           and (@at is null or rowid < @at) order by rowid desc limit @limit`,
      )
      .pluck()
      .all({ ...params, at });
    const one = this.db.prepare<[SearchParams & { at: number }], FoundRow>(
      searchOf('run_words.rowid = @at'),
    );
    const read = (position: number) => one.get({ ...params, before: null, at: position });
    return [...rows.each(positions, read)].map((row) => ('damage' in row ? row : found(row)));
  }

  private searchFor(whose: string): Database.Statement<[SearchParams], FoundRow> {
    const known = this.searches.get(whose) ?? this.db.prepare(searchOf(whose));
    this.searches.set(whose, known);
    return known;
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
      all.push(`(${begun.map(quoteTerm).join(' OR ')})`);
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
}

function found({ prompt, answer, ...row }: FoundRow): FoundRun {
  return { ...row, ...snippetOf([prompt, answer]) };
}

interface SearchParams {
  match: string;
  before: string | null;
  asked_by?: string;
  limit: number;
}
type FoundRow = Omit<FoundRun, 'snippet' | 'matches'> & { prompt: string; answer: string };

/** Matches are looked through, newest first: an asker may have many more runs. */
const OF_ASKER = ofAsker('run_words.rowid');

/**
 * The snippet is made here: `snippet` of FTS5 compares each match in a text with all others. A text
 * of one repeated word would take minutes.
 */
const searchOf = (whose: string) => `select r.run_id, r.state, r.provider,
    r.data ->> '$.model' as model, r.data ->> '$.created_at' as created_at,
    coalesce(r.data ->> '$.conversation', r.run_id) as conversation,
    highlight(run_words, 0, char(2), char(3)) as prompt,
    highlight(run_words, 1, char(2), char(3)) as answer
  from run_words cross join runs r on r.accepted_seq = run_words.rowid
  where run_words match @match and ${whose}
    and (@before is null
      or run_words.rowid < (select accepted_seq from runs where run_id = @before))
  order by run_words.rowid desc limit @limit`;

/** A term as FTS5 reads it: in quotes, nothing of it is an operator. */
function quoteTerm(term: string): string {
  return `"${term.replaceAll('"', '""')}"`;
}
