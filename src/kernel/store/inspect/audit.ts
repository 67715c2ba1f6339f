import type Database from 'better-sqlite3';
import type { VerifiedReport } from '../port.ts';
import { damagedRun, Projection } from '../projection.ts';
import type { EventRow } from '../row.ts';
import { EventReads, type LinkedRow } from '../sqlite/event-reads.ts';
import { recountTexts } from '../sqlite/texts-table.ts';
import { USES } from '../texts.ts';

/**
 * The slow check of the whole log while the daemon runs, in small parts, round by round. It owns
 * the position of the current round and the known problems.
 *
 * 1. A part is bounded by events and by bytes, so that no commit waits long for it.
 * 2. A part replaces the known problems in its range, and no others.
 * 3. It looks up each event by its stream and each run by its key. Hashes prove rows, not the
 *    indexes.
 * 4. The start after a round that found a damaged index rebuilds the indexes from the tables.
 * 5. The database keeps position and problems every SAVE_PARTS parts and at the end of a round. A
 *    restart continues there.
 */
export class Audit {
  private readonly db: Database.Database;
  private readonly reads: EventReads;
  private readonly projection: Projection;
  private readonly indexes: Indexes;
  private readonly saved: Database.Statement<[string]>;
  private state: State;
  private unsaved = 0;

  constructor(db: Database.Database) {
    this.db = db;
    this.reads = new EventReads(db, PART_BYTES);
    this.projection = new Projection(db);
    this.indexes = new Indexes(db);
    this.saved = db.prepare(`insert or replace into meta (name, value) values ('verified', ?)`);
    this.state = readState(
      db.prepare<[], string>(`select value from meta where name = 'verified'`).pluck().get(),
    );
  }

  report(): VerifiedReport {
    const { seq, at, complete, problems } = this.state;
    return {
      seq,
      at,
      complete,
      problems: problems.slice(0, SHOWN_MAX).map(({ text }) => text),
      damaged: problems.length,
    };
  }

  /**
   * Rebuilds the indexes at the start, if the last check found a damaged one and every event
   * intact. Then the next part begins a new round. True: they were rebuilt.
   */
  mendIndexes(): boolean {
    const { problems } = this.state;
    const isNeeded =
      problems.some(({ kind }) => kind === 'index') &&
      !problems.some(({ kind }) => kind === 'event') &&
      rebuildIndexes(this.db);
    if (!isNeeded) return false;
    this.state = {
      ...this.state,
      seq: 0,
      complete: false,
      problems: problems.filter(({ kind }) => kind !== 'index'),
    };
    this.save(true);
    return true;
  }

  /** The next part begins a new round. */
  restart(): void {
    this.state.seq = 0;
  }

  /**
   * Checks the newest and the unfinished runs at the start, without their texts. Returns the
   * damaged ones. `isStrict`: throws the error of a damaged page.
   */
  checkNewest(limit: number, isStrict: boolean): string[] {
    const damaged: string[] = [];
    for (const { run_id, seq } of this.projection.newest(limit)) {
      const problem = this.projection.problemOf(run_id, seq, false, isStrict);
      if (problem === null) continue;
      this.note({ kind: 'run', seq, run_id, text: damagedRun(run_id, problem).message });
      damaged.push(run_id);
    }
    return damaged;
  }

  /**
   * Checks one part. `done`: it ended a round, at `now`. `damaged`: runs to rebuild from their
   * events.
   */
  part(now: number): { done: boolean; damaged: string[] } {
    const after = this.state.seq;
    const found: Problem[] = [];
    const { to, done } = this.checkEvents(after, found);
    const bound = done ? Number.MAX_SAFE_INTEGER : to;
    const extra = this.projection.extra(after, bound);
    for (const { run_id, accepted_seq } of extra)
      found.push({
        kind: 'extra',
        seq: accepted_seq,
        run_id,
        text: damagedRun(run_id, 'does not belong to an event of it').message,
      });
    this.state.problems = this.state.problems.filter(({ seq }) => seq <= after || seq > bound);
    for (const problem of found) this.note(problem);
    this.state.seq = to;
    this.state.complete = done;
    if (done) this.state.at = now;
    this.save(done || found.some(({ kind }) => kind === 'index'));
    return {
      done,
      damaged: found.filter(({ kind }) => kind === 'run').map(({ run_id }) => run_id ?? ''),
    };
  }

  /** The row of a run was rebuilt. */
  mended(run_id: string): void {
    this.state.problems = this.state.problems.filter(
      (problem) => problem.kind !== 'run' || problem.run_id !== run_id,
    );
    this.save(true);
  }

  /** Saves the state. If that fails, the next part tries again. */
  private save(now: boolean): void {
    this.unsaved += 1;
    if (!now && this.unsaved < SAVE_PARTS) return;
    try {
      this.saved.run(JSON.stringify(this.state));
      this.unsaved = 0;
    } catch {
      // The disk is full. The state stays in memory.
    }
  }

  /** Checks the events after a position, with the rows of the runs that begin there. */
  private checkEvents(after: number, found: Problem[]): { to: number; done: boolean } {
    let [to, count, bytes] = [after, 0, 0];
    const { texts } = this.projection;
    texts.chars = 0;
    if (after === 0) texts.forget();
    try {
      const starts: LinkedRow[] = [];
      for (const row of this.reads.iterate(after + 1, PART_EVENTS)) {
        const problem = this.reads.problem(row) ?? this.textProblem(row);
        if (problem !== null)
          found.push({ kind: 'event', seq: row.seq, run_id: null, text: problem });
        const hidden = problem === null ? this.indexes.ofEvent(row) : null;
        if (hidden !== null)
          found.push({ kind: 'index', seq: row.seq, run_id: null, text: hidden });
        if (row.version === 1 && row.type === 'run.accepted') starts.push(row);
        to = row.seq;
        count += 1;
        bytes += row.data.length;
        if (bytes + texts.chars >= PART_BYTES) break;
      }
      const isLarge = bytes + texts.chars >= PART_BYTES;
      for (const { stream, seq } of starts) this.checkRun(stream, seq, found);
      return { to, done: count < PART_EVENTS && !isLarge };
    } catch {
      found.push({
        kind: 'event',
        seq: to + 1,
        run_id: null,
        text: `The database is damaged: the events after ${to} cannot all be read.`,
      });
      return this.step(to);
    }
  }

  private textProblem({ seq, type, data }: LinkedRow): string | null {
    return this.projection.texts.isWhole(data)
      ? null
      : `The event ${seq} of the log (${type}) ${USES}.`;
  }

  private checkRun(run_id: string, seq: number, found: Problem[]): void {
    const problem = this.projection.problemOf(run_id, seq, true);
    if (problem !== null)
      found.push({ kind: 'run', seq, run_id, text: damagedRun(run_id, problem).message });
    const unfound = this.indexes.ofRun(run_id);
    if (unfound !== null) found.push({ kind: 'index', seq, run_id: null, text: unfound });
  }

  /** Skips an unreadable place: the next readable event, or the end of the log. */
  private step(from: number): { to: number; done: boolean } {
    for (let to = from + 1; to <= from + PART_EVENTS; to += 1) {
      try {
        for (const row of this.reads.iterate(to + 1, 1)) return { to: row.seq - 1, done: false };
        return { to, done: true };
      } catch {
        // This one is unreadable too.
      }
    }
    return { to: from + PART_EVENTS, done: false };
  }

  private note(problem: Problem): void {
    const known = this.state.problems.some(
      ({ seq, text }) => seq === problem.seq && text === problem.text,
    );
    if (!known && this.state.problems.length < PROBLEMS_MAX) this.state.problems.push(problem);
  }
}

interface Problem {
  kind: 'event' | 'index' | 'run' | 'extra';
  seq: number;
  run_id: string | null;
  text: string;
}

interface State {
  /** Where the current round is. */
  seq: number;
  /** When the last whole round ended. */
  at: number | null;
  complete: boolean;
  problems: Problem[];
}

const PART_EVENTS = 500;
const PART_BYTES = 1024 * 1024;
const SAVE_PARTS = 50;
const PROBLEMS_MAX = 100;
const SHOWN_MAX = 20;

/** Unreadable state starts over. */
function readState(text: string | undefined): State {
  try {
    const { seq, at, complete, problems } = JSON.parse(text ?? '') as State;
    if (
      Number.isSafeInteger(seq) &&
      (at === null || Number.isFinite(at)) &&
      Array.isArray(problems)
    )
      return { seq, at, complete: complete === true, problems };
  } catch {
    // The recorded state is missing or damaged.
  }
  return { seq: 0, at: null, complete: true, problems: [] };
}

/**
 * Checks that the indexes find the rows. A damaged index hides events from a stream, or a run
 * from its key.
 */
class Indexes {
  private readonly event: Database.Statement<[string, number], number>;
  private readonly key: Database.Statement<[string], number>;

  constructor(db: Database.Database) {
    this.event = db
      .prepare<[string, number], number>('select seq from events where stream = ? and version = ?')
      .pluck();
    this.key = db.prepare<[string], number>(UNFOUND).pluck();
  }

  /** The problem, as a sentence. */
  ofEvent({ seq, stream, version, type }: EventRow): string | null {
    return this.event.get(stream, version) === seq
      ? null
      : `The event ${seq} of the log (${type}) is not found by its stream: ${DAMAGED}`;
  }

  /** The problem, as a sentence. */
  ofRun(run_id: string): string | null {
    return this.key.get(run_id) === undefined
      ? null
      : `The run ${run_id} is not found by its idempotency key: ${DAMAGED}`;
  }
}

/**
 * Builds all indexes again from the tables, in one transaction. False if that fails: the tables
 * contradict themselves, or there is no space. Then nothing has changed.
 */
function rebuildIndexes(db: Database.Database): boolean {
  try {
    db.transaction(() => {
      db.exec('reindex');
      recountTexts(db);
    }).immediate();
    return true;
  } catch {
    return false;
  }
}

const DAMAGED = 'an index is damaged. The next start of the daemon rebuilds it.';

/** Finds a run whose key does not lead to it. */
const UNFOUND = `select 1 from runs r where r.run_id = ? and r.idempotency_key is not null
  and not exists (select 1 from runs k indexed by runs_key where k.idempotency_key = r.idempotency_key and k.rowid = r.rowid)`;
