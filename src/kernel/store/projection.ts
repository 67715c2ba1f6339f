import type Database from 'better-sqlite3';
import { SvcError } from '../../errors.ts';
import { codeOf, isDamage } from './failure.ts';
import { TextCheck } from './inspect/text-check.ts';
import { MISPLACED } from './places.ts';
import { dataDigest, fieldsDigest, isSame, RUN_FIELDS, type RunFields } from './run-digest.ts';
import { USES } from './texts.ts';
import { UNINDEXED } from './words.ts';

/** A row of `runs` with its digests; null if they are missing. */
export type StoredRun = StoredFields & { data: string; data_digest: unknown };
export type StoredFields = RunFields & { fields_digest: unknown };

const FIELDS = RUN_FIELDS.map((field) => `r.${field}`).join(', ');
export const STORED_FIELDS =
  `select ${FIELDS}, d.fields as fields_digest ` +
  'from runs r left join run_digests d on d.run_id = r.run_id';
/** `runs`: the source of the runs, as `r`. */
export const storedRuns = (runs: string) =>
  `select ${FIELDS}, r.data as data, d.fields as fields_digest, d.data as data_digest ` +
  `from ${runs} left join run_digests d on d.run_id = r.run_id`;
export const STORED_RUN = storedRuns('runs r');

/** The error of a damaged row. The events may still be fine. */
export function damagedRun(run_id: string, problem: string): SvcError {
  return new SvcError('store_corrupt', `The record of the run ${run_id} ${problem}.`, {
    details: { run_id },
  });
}

/** The problem of a row itself, as the end of a sentence. */
export function storedProblem(row: StoredRun): string | null {
  return (
    fieldsProblem(row) ??
    (isSame(row.data_digest, dataDigest(row.run_id, row.data)) ? null : CHANGED)
  );
}

export function fieldsProblem(row: StoredFields): string | null {
  return isSame(row.fields_digest, fieldsDigest(row)) ? null : CHANGED;
}

const CHANGED = 'does not agree with its digest';

/**
 * Checks the rows of `runs` against the events: each accepted run has a row, and no other run has
 * one.
 */
export class Projection {
  private readonly db: Database.Database;
  private besides: Database.Statement<[string]>[] | null = null;
  private readonly statements: ReturnType<typeof prepare>;
  readonly texts: TextCheck;

  constructor(db: Database.Database) {
    this.db = db;
    this.statements = prepare(db);
    this.texts = new TextCheck(db);
  }

  /**
   * The problem of the row of a run, as the end of a sentence. `data`: reads the texts too. `seq`:
   * where the run was accepted. `isStrict`: throws the error of a damaged page.
   */
  problemOf(run_id: string, seq: number, data: boolean, isStrict = false): string | null {
    try {
      return this.problemIn(run_id, seq, data);
    } catch (error) {
      if (!isDamage(error) || isStrict) throw error;
      return 'is in a damaged page';
    }
  }

  private problemIn(run_id: string, seq: number, data: boolean): string | null {
    const { whole, fields, last } = this.statements;
    const row = data ? whole.get(run_id) : fields.get(run_id);
    if (row === undefined) return 'is missing';
    const problem = 'data' in row ? storedProblem(row as StoredRun) : fieldsProblem(row);
    if (problem !== null) return problem;
    if (row.accepted_seq !== seq || last.get(run_id) !== row.seq)
      return 'does not agree with its events';
    if (!this.isFound(row)) return 'is not found by its fields';
    if ('data' in row && !this.texts.isWhole(row.data as string)) return USES;
    return data && this.isAmiss(run_id)
      ? 'does not agree with the tables that follow from it'
      : null;
  }

  /** Whether a table beside `runs` says something else. A copy may lack it. */
  private isAmiss(run_id: string): boolean {
    try {
      this.besides ??= [UNINDEXED, MISPLACED].map((query) => this.db.prepare<[string]>(query));
      return this.besides.some((found) => found.get(run_id) !== undefined);
    } catch (error) {
      if (codeOf(error) === 'SQLITE_ERROR') return false;
      throw error;
    }
  }

  /** Rows of unknown runs, by their position in this part of the log. */
  extra(after: number, to: number): { run_id: string; accepted_seq: number }[] {
    return this.statements.extra.all(after, to, EXTRA_MAX);
  }

  /** The newest runs, and the other unfinished ones. */
  newest(limit: number): { run_id: string; seq: number }[] {
    const runs = this.statements.newest.all(limit);
    return [...runs, ...this.statements.unfinished.all(runs.at(-1)?.seq ?? 0)];
  }

  /** False if a lookup by index does not find the row. */
  private isFound({
    run_id,
    accepted_seq,
    idempotency_key,
    finished,
    ended_at,
    state,
    provider,
    seq,
  }: RunFields): boolean {
    const { byKey, byList, byFinished, byUnfinished, byEnd } = this.statements;
    if (idempotency_key !== null && byKey.get(idempotency_key) !== run_id) return false;
    if (byList.get(accepted_seq, state, provider) !== run_id) return false;
    if (finished === 0) return byUnfinished.get(accepted_seq) === run_id;
    return (
      byFinished.get(accepted_seq, seq) === run_id &&
      (ended_at === null || byEnd.get(ended_at, run_id) === run_id)
    );
  }
}

const EXTRA_MAX = 20;

function prepare(db: Database.Database) {
  const ids = <P extends unknown[]>(index: string, where: string) =>
    db.prepare<P, string>(`select run_id from runs indexed by ${index} where ${where}`).pluck();
  return {
    whole: db.prepare<[string], StoredRun>(`${STORED_RUN} where r.run_id = ?`),
    fields: db.prepare<[string], StoredFields>(`${STORED_FIELDS} where r.run_id = ?`),
    last: db
      .prepare<[string], number>(
        "select seq from events where stream = ? and type <> 'run.output_appended' " +
          'order by version desc limit 1',
      )
      .pluck(),
    extra: db.prepare<[number, number, number], { run_id: string; accepted_seq: number }>(
      `select run_id, accepted_seq from runs where accepted_seq > ? and accepted_seq <= ?
         and not exists (
           select 1 from events where seq = runs.accepted_seq and stream = runs.run_id
         ) limit ?`,
    ),
    newest: db.prepare<[number], { run_id: string; seq: number }>(
      'select stream as run_id, seq from events where version = 1 ' +
        "and type = 'run.accepted' order by seq desc limit ?",
    ),
    unfinished: db.prepare<[number], { run_id: string; seq: number }>(
      'select run_id, accepted_seq as seq from runs where finished = 0 ' +
        'and accepted_seq < ? order by accepted_seq',
    ),
    byKey: ids<[string]>('runs_key', 'idempotency_key = ?'),
    byList: ids<[number, string, string]>(
      'runs_newest',
      'accepted_seq = ? and state = ? and provider = ?',
    ),
    byUnfinished: ids<[number]>('runs_unfinished', 'finished = 0 and accepted_seq = ?'),
    byFinished: ids<[number, number]>(
      'runs_finished',
      'finished = 1 and accepted_seq = ? and seq = ?',
    ),
    byEnd: ids<[number, string]>('runs_ended', 'finished = 1 and ended_at = ? and run_id = ?'),
  };
}
