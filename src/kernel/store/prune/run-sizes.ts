import type Database from 'better-sqlite3';
import { REFERRING, type Texts } from '../sqlite/texts-table.ts';
import type { SizedRun } from './order.ts';

/**
 * Runs measured in one step, and the events that end a step. A commit may have to wait for them.
 */
const STEP_RUNS = 500;
const STEP_EVENTS = 20_000;
/** Bytes of an event beside its data, with its index entries. */
export const ROW_BYTES = 200;

type Found = Omit<SizedRun, 'bytes'> & { row_bytes: number };

/**
 * The bytes of each finished run in the log: its events, its row, and the texts that only it needs.
 * It owns the sizes, and measures only when the log is too large.
 *
 * 1. It measures in small steps. It reads the heads of rows, and those with references.
 * 2. It forgets a removed run. It measures a run that finished later in the next round.
 */
export class RunSizes {
  private readonly runs = new Map<string, SizedRun>();
  private readonly statements: ReturnType<typeof prepare>;
  private readonly texts: Texts;
  /** Runs accepted up to here were measured in the first round. */
  private acceptedSeq = 0;
  /** Runs that ended up to here are known; null until the first round is complete. */
  private endedSeq: number | null = null;
  private begunSeq: number | null = null;

  constructor(db: Database.Database, texts: Texts) {
    this.texts = texts;
    this.statements = prepare(db);
  }

  /** Measures some more. False if all runs that ended before `last_seq` are known. */
  measure(last_seq: number): boolean {
    if (this.endedSeq !== null) return this.measureNew(this.endedSeq, last_seq);
    this.begunSeq ??= last_seq;
    const found = this.statements.accepted.all({
      accepted_seq: this.acceptedSeq,
      limit: STEP_RUNS,
    });
    for (const [index, run] of this.firstStep(found).entries())
      this.acceptedSeq = found[index]?.accepted_seq ?? run.accepted_seq;
    if (found.length === 0) this.endedSeq = this.begunSeq;
    return true;
  }

  /** Bytes of the runs in progress. */
  unfinished(): number {
    return this.statements.unfinished
      .all()
      .reduce((sum, run_id) => sum + this.sizeOf(run_id).bytes, 0);
  }

  values(): Iterable<SizedRun> {
    return this.runs.values();
  }

  delete(run_id: string): void {
    this.runs.delete(run_id);
  }

  private measureNew(endedSeq: number, last_seq: number): boolean {
    if (endedSeq === last_seq) return false;
    const found = this.statements.ended.all({ seq: endedSeq, limit: STEP_RUNS });
    const taken = this.firstStep(found);
    const last = found[taken.length - 1];
    const all = taken.length === found.length && found.length < STEP_RUNS;
    this.endedSeq = all || last === undefined ? last_seq : last.seq;
    return !all;
  }

  /** Measures these runs, at most one step. */
  private firstStep(found: (Found & { seq: number })[]): SizedRun[] {
    const taken: SizedRun[] = [];
    let measured = 0;
    for (const { row_bytes, seq: _, ...run } of found) {
      const { events, bytes } = this.sizeOf(run.run_id);
      const sized = { ...run, bytes: bytes + row_bytes + ROW_BYTES };
      this.runs.set(run.run_id, sized);
      taken.push(sized);
      measured += events;
      if (measured > STEP_EVENTS) break;
    }
    return taken;
  }

  private sizeOf(run_id: string): { events: number; bytes: number } {
    const { events, bytes } = this.statements.size.get(run_id) ?? { events: 0, bytes: 0 };
    const referring = this.statements.referring.all({ run_id });
    return { events, bytes: bytes + events * ROW_BYTES + this.texts.bytesOf(referring) };
  }
}

function prepare(db: Database.Database) {
  const columns = 'run_id, provider, ended_at, accepted_seq, seq, octet_length(data) as row_bytes';
  const find = <P>(where: string) =>
    db.prepare<[P], Found & { seq: number }>(
      `select ${columns} from runs where finished = 1 and ${where} limit @limit`,
    );
  return {
    accepted: find<{ accepted_seq: number; limit: number }>(
      'accepted_seq > @accepted_seq order by accepted_seq',
    ),
    ended: find<{ seq: number; limit: number }>('seq > @seq order by seq'),
    unfinished: db.prepare<[], string>('select run_id from runs where finished = 0').pluck(),
    referring: db
      .prepare<[{ run_id: string }], string>(
        `select data from events where stream = @run_id and ${REFERRING}
         union all select data from runs where run_id = @run_id and ${REFERRING}`,
      )
      .pluck(),
    size: db.prepare<[string], { events: number; bytes: number }>(
      'select count(*) as events, coalesce(sum(octet_length(data)), 0) as bytes ' +
        'from events where stream = ?',
    ),
  };
}
