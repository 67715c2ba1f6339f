import type Database from 'better-sqlite3';
import { GENESIS } from '../continuity.ts';
import type { KnownMark, Mark } from '../files/high-water.ts';
import { Gaps } from '../gaps.ts';
import type { VerifyReport } from '../port.ts';
import { damagedRun, Projection } from '../projection.ts';
import { logName } from '../schema.ts';
import { countWrongCounts } from '../sqlite/texts-table.ts';
import { USES } from '../texts.ts';
import { EVENTS, type HashedRow, hashAt, hex, linkProblem, markProblem, skipGap } from './check.ts';
import { TextCheck } from './text-check.ts';

/** Events checked between two pauses. */
const PART_EVENTS = 1000;
/** Runs checked between two pauses, with their texts. */
const PART_RUNS = 50;
/** Problems listed one by one. */
const PROBLEMS_MAX = 20;

/**
 * Reads and checks everything. Awaits `pause` between parts, so that the thread can do other
 * work.
 */
export async function verifyLog(
  db: Database.Database,
  mark: KnownMark | null,
  pause: () => Promise<unknown>,
): Promise<VerifyReport> {
  const problems: string[] = [];
  const { last, events } = await checkChain(db, problems, pause);
  const hashOf = (seq: number) => hashAt(db, seq);
  const steps = [
    () => oneOrNone(markProblem(last, mark, logName(db), hashOf)),
    () => streamProblems(db),
    () => extraProblems(db),
    () => databaseProblems(db),
    () => countProblems(db),
  ];
  for (const step of steps) {
    await pause();
    problems.push(...readable(step));
  }
  await checkRuns(db, problems, pause);
  return { ok: problems.length === 0, events, problems: shorten(problems) };
}

/**
 * Follows the hash chain from the first event. After a break it continues with the stored hash,
 * to find each break.
 */
async function checkChain(
  db: Database.Database,
  problems: string[],
  pause: () => Promise<unknown>,
): Promise<{ last: Mark; events: number }> {
  const gaps = new Gaps(db);
  const texts = new TextCheck(db);
  let last: Mark = { seq: 0, hash: GENESIS };
  let events = 0;
  for (let done = false; !done; await pause()) {
    const from = last.seq;
    problems.push(
      ...readable(() => {
        const found: string[] = [];
        const rows = db.prepare<[number, number], HashedRow>(
          `select ${EVENTS}, hash from events where seq > ? order by seq limit ?`,
        );
        done = true;
        for (const row of rows.iterate(from, PART_EVENTS)) {
          const problem =
            linkProblem(skipGap(gaps, last, row.seq), row) ??
            (texts.isWhole(row.data)
              ? null
              : `The event ${row.seq} of the log (${row.type}) ${USES}.`);
          events += 1;
          if (problem !== null) found.push(problem);
          last = { seq: row.seq, hash: hex(row.hash) };
          done = false;
        }
        return found;
      }, from),
    );
  }
  return { last, events };
}

function streamProblems(db: Database.Database): string[] {
  const query = `select stream, version from (
      select stream, version, seq,
        lag(version, 1, 0) over log as version_before, lag(seq, 1, 0) over log as seq_before
      from events window log as (partition by stream order by version)
    ) where version <> version_before + 1 or seq <= seq_before limit ${PROBLEMS_MAX}`;
  const rows = db.prepare<[], { stream: string; version: number }>(query).all();
  return rows.map(
    ({ stream, version }) => `Version ${version} of ${stream} does not follow the one before it.`,
  );
}

/** Checks that each accepted run has its row, and each row its digests. */
async function checkRuns(
  db: Database.Database,
  problems: string[],
  pause: () => Promise<unknown>,
): Promise<void> {
  let after = 0;
  let projection: Projection | null = null;
  for (let done = false; !done; await pause()) {
    problems.push(
      ...readable(() => {
        done = true;
        projection ??= new Projection(db);
        const found: string[] = [];
        for (const { run_id, seq } of db
          .prepare<[number, number], { run_id: string; seq: number }>(ACCEPTED)
          .all(after, PART_RUNS)) {
          const problem = projection.problemOf(run_id, seq, true);
          if (problem !== null) found.push(damagedRun(run_id, problem).message);
          after = seq;
          done = false;
        }
        return found;
      }),
    );
  }
}

const ACCEPTED =
  "select stream as run_id, seq from events where version = 1 and type = 'run.accepted' " +
  'and seq > ? order by seq limit ?';

function extraProblems(db: Database.Database): string[] {
  return new Projection(db)
    .extra(0, Number.MAX_SAFE_INTEGER)
    .map(({ run_id }) => damagedRun(run_id, 'does not belong to an event of it').message);
}

function databaseProblems(db: Database.Database): string[] {
  const lines = db.prepare<[], string>(`pragma integrity_check(${PROBLEMS_MAX})`).pluck().all();
  return lines.filter((line) => line !== 'ok').map((line) => `The database says: ${line}.`);
}

function countProblems(db: Database.Database): string[] {
  const texts = countWrongCounts(db);
  return texts === 0 ? [] : [`The counts of ${texts} texts do not agree with their uses.`];
}

/** The findings of a check. An unreadable place is a finding too. */
function readable(check: () => string[], after?: number): string[] {
  try {
    return check();
  } catch {
    return [
      after === undefined
        ? 'The database is damaged: a check could not be finished.'
        : `The database is damaged: the events after ${after} cannot all be read.`,
    ];
  }
}

function oneOrNone(problem: string | null): string[] {
  return problem === null ? [] : [problem];
}

function shorten(problems: string[]): string[] {
  if (problems.length <= PROBLEMS_MAX) return problems;
  return [...problems.slice(0, PROBLEMS_MAX), `And ${problems.length - PROBLEMS_MAX} more.`];
}
