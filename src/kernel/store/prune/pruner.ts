import type Database from 'better-sqlite3';
import { Gaps, type RemovedEvents } from '../gaps.ts';
import { CONVERSATION, titleStream } from '../places.ts';
import type { PruneQuery, PruneReport } from '../port.ts';
import { REFERRING, Texts } from '../sqlite/texts-table.ts';
import { UsageTable } from '../usage.ts';
import { HOUR_MS } from '../usage-sums.ts';
import { LogFile } from './log-file.ts';
import { SAID, Surplus } from './order.ts';
import { type Moment, oldAt } from './run-age.ts';
import { ROW_BYTES, RunSizes } from './run-sizes.ts';

/** Events removed in one step, unless one run has more. A commit may have to wait for them. */
const STEP_EVENTS = 2000;
/** Small young runs go when the log exceeds its limit this many times. */
const YOUNG_FACTOR = 2;
/**
 * Removes history: whole finished runs, and the events of boots. For size, all goes in the order of
 * `order.ts`.
 *
 * 1. A run is removed whole, with its row, its idempotency key and the texts that no other one
 *    needs. Unfinished runs stay.
 * 2. The last event of the log stays, so that the log continues from an event.
 * 3. A long stream of a boot is removed from its end, so that the rest is still a beginning.
 * 4. A stream of the current boot goes like one of an earlier boot, once its machine is gone.
 * 5. No run goes for bytes that cannot be removed: living machines, and runs in progress.
 * 6. Small young runs stay until the log exceeds twice its limit.
 * 7. Only what goes with runs and boots counts: see `log-file.ts`.
 * 8. Sums of old hours are folded, whatever the size.
 * 9. Each step is one transaction. All steps of a round follow one order. Removed data is
 *    overwritten in the file. After the last step it is not in the WAL either.
 */
export class Pruner {
  private readonly db: Database.Database;
  private readonly gaps: Gaps;
  private readonly sizes: RunSizes;
  private readonly texts: Texts;
  /** When runs from before a clock jump are old. */
  private readonly oldAt = new Map<string, number>();
  private readonly statements: ReturnType<typeof prepare>;
  private readonly usage: UsageTable;
  private readonly file: LogFile;
  /** The next item that the round removes for size. Null: it has removed nothing for that yet. */
  private surplus: Surplus | null = null;
  /** About the bytes of the current boot's events that belong to no run. */
  private presentBytes = 0;

  constructor(db: Database.Database) {
    this.db = db;
    this.gaps = new Gaps(db);
    this.texts = new Texts(db);
    this.sizes = new RunSizes(db, this.texts);
    this.statements = prepare(db);
    this.usage = new UsageTable(db);
    this.file = new LogFile(db);
  }

  /** The current boot has written these events. */
  wrote(events: readonly { stream: string; data: string }[]): void {
    for (const { stream, data } of events)
      if (!stream.startsWith('run_')) this.presentBytes += data.length + ROW_BYTES;
  }

  /** One step of a round. */
  prune(query: PruneQuery, last_seq: number): PruneReport {
    if (query.clock !== undefined && this.fold(query.clock.now))
      return { runs: 0, events: 0, more: true };
    const max_bytes =
      query.max_bytes === null
        ? null
        : query.max_bytes + this.presentBytes + this.sizes.unfinished();
    const surplus = this.surplus;
    this.surplus = null;
    const { next, ...report } = this.db
      .transaction(() => this.remove({ ...query, max_bytes }, last_seq, surplus))
      .immediate();
    this.surplus = next;
    return this.tidy(report, max_bytes);
  }

  private fold(now: number): boolean {
    const fold = this.db.transaction(() => this.usage.fold(Math.floor(now / HOUR_MS)));
    return fold.immediate();
  }

  /**
   * Removes one run, and the title of the conversation that it began. `runs` is 0 for a run that
   * is unfinished or unknown, or if the last event is of the two. `more`: calls of `prune` shrink
   * the file further.
   */
  removeOne(run_id: string, last_seq: number): PruneReport {
    const report = this.db
      .transaction((): PruneReport => {
        const removed: RemovedEvents[] = [];
        const title = titleStream(run_id);
        const may =
          this.statements.mayGo.get(run_id, last_seq) !== undefined &&
          (this.statements.lastOf.get(title)?.seq ?? 0) < last_seq;
        const runs = may ? this.removeRun(run_id, removed) : 0;
        if (may) this.removeStream(title, 0, removed);
        this.gaps.add(removed);
        return { runs, events: removed.length, more: false };
      })
      .immediate();
    return report.runs === 0 ? report : this.tidy(report, null);
  }

  /** Shrinks the file after a step, and empties the WAL after the last one. */
  private tidy(report: PruneReport, max_bytes: number | null): PruneReport {
    if (report.events > 0) this.file.noteRemoval();
    if (report.more || this.file.shrink()) return { ...report, more: true };
    const trouble = this.file.checkpoint();
    this.file.forget();
    return {
      ...report,
      ...(this.isOver(max_bytes) ? { over: true } : {}),
      ...(trouble === null ? {} : { trouble }),
    };
  }

  /** `next`: the rest of the surplus. */
  private remove(
    query: PruneQuery,
    last_seq: number,
    known: Surplus | null,
  ): PruneReport & { next: Surplus | null } {
    const { max_bytes } = query;
    const removed: RemovedEvents[] = [];
    const isFull = (count: number) => count >= query.limit || removed.length >= STEP_EVENTS;
    const isTwiceOver = () => max_bytes !== null && this.isOver(YOUNG_FACTOR * max_bytes);
    let runs = this.removeAged(query, last_seq, removed);
    let more = isFull(runs) || this.removeBoots({ ...query, max_bytes: null }, last_seq, removed);
    if (!more && this.isOver(max_bytes)) more = this.sizes.measure(last_seq);
    let surplus = known;
    while (!more && this.isOver(max_bytes)) {
      surplus ??= this.surplusOf(query);
      const next = surplus.next(isTwiceOver);
      if (next === null) break;
      if (next === SAID) {
        more =
          this.removeDaemons(query, last_seq, removed) ||
          this.removeBoots(query, last_seq, removed);
        if (more) break;
      } else if (this.statements.mayGo.get(next.run_id, last_seq) !== undefined) {
        runs += this.removeRun(next.run_id, removed);
      }
      surplus.taken();
      more = isFull(runs) || this.removeBoots(query, last_seq, removed);
    }
    this.gaps.add(removed);
    return { runs, events: removed.length, more, next: more ? surplus : null };
  }

  private surplusOf({
    keep_boot,
    large_bytes = Number.POSITIVE_INFINITY,
    young_at = Number.POSITIVE_INFINITY,
  }: PruneQuery): Surplus {
    const said_bytes = (this.statements.saidEvents.get(keep_boot) ?? 0) * ROW_BYTES;
    return new Surplus(this.sizes.values(), { large_bytes, young_at, said_bytes });
  }

  /** Removes the runs that are too old. Returns how many. */
  private removeAged(query: PruneQuery, last_seq: number, removed: RemovedEvents[]): number {
    const old: string[] = [];
    for (const run of query.before_at === null
      ? []
      : this.statements.aged.iterate(query.before_at, last_seq)) {
      if (this.isOld(run, query, last_seq)) old.push(run.run_id);
      if (old.length >= query.limit) break;
    }
    let runs = 0;
    for (const run_id of old)
      if (removed.length < STEP_EVENTS) runs += this.removeRun(run_id, removed);
    return runs;
  }

  /** A clock jump may have made a run look old. */
  private isOld(
    run: Moment & { run_id: string },
    { before_at, clock }: PruneQuery,
    last_seq: number,
  ): boolean {
    if (before_at === null || clock === undefined) return true;
    const { firstFrom } = this.statements;
    const rules = { keep_ms: clock.now - before_at, even_since: clock.even_since };
    const runOldAt =
      this.oldAt.get(run.run_id) ??
      oldAt(run, firstFrom.get(last_seq) ?? run, rules, (seq) => firstFrom.get(seq));
    if (runOldAt > clock.now) this.oldAt.set(run.run_id, runOldAt);
    return runOldAt <= clock.now;
  }

  private removeRun(run_id: string, removed: RemovedEvents[]): 1 {
    this.removeStream(run_id, 0, removed);
    const texts = this.statements.runTexts.all(run_id);
    this.statements.deleteRun.run(run_id);
    for (const data of texts) this.texts.release(data);
    this.sizes.delete(run_id);
    this.oldAt.delete(run_id);
    return 1;
  }

  /** Streams before each run that stays. Whether there may be more. */
  private removeBoots(query: PruneQuery, last_seq: number, removed: RemovedEvents[]): boolean {
    const { before_at, max_bytes, keep_boot } = query;
    const { oldestKept, starts, lastOf, bytesOf } = this.statements;
    const kept = oldestKept.get() ?? last_seq;
    for (const stream of starts.all(kept)) {
      if (removed.length >= STEP_EVENTS) return true;
      const last = lastOf.get(stream);
      if (last === undefined || last.seq >= kept || mayGrow(stream, last, query)) continue;
      if ((before_at === null || last.at >= before_at) && !this.isOver(max_bytes)) continue;
      const after = last.version - STEP_EVENTS;
      if (last.boot_id === keep_boot) this.presentBytes -= bytesOf.get(stream, after) ?? 0;
      this.removeStream(stream, after, removed);
    }
    return removed.length >= STEP_EVENTS;
  }

  /** The daemon events of earlier boots, if the log is too large. Whether there may be more. */
  private removeDaemons(
    { max_bytes, keep_boot }: PruneQuery,
    last_seq: number,
    removed: RemovedEvents[],
  ): boolean {
    const { daemons, lastOf } = this.statements;
    for (const stream of this.isOver(max_bytes) ? daemons.all(keep_boot) : []) {
      if (removed.length >= STEP_EVENTS) return true;
      const last = lastOf.get(stream);
      if (last === undefined || last.seq >= last_seq || !this.isOver(max_bytes)) continue;
      this.removeStream(stream, last.version - STEP_EVENTS, removed);
    }
    return removed.length >= STEP_EVENTS;
  }

  /** The events of a stream after a version. */
  private removeStream(stream: string, after: number, removed: RemovedEvents[]): void {
    for (const event of this.statements.eventsOf.iterate(stream, after)) removed.push(event);
    for (const data of this.statements.eventTexts.all(stream, after)) this.texts.release(data);
    this.statements.deleteEvents.run(stream, after);
  }

  private isOver(max_bytes: number | null): boolean {
    return this.file.isOver(max_bytes);
  }
}

/** Whether a stream of the current boot may get more events. */
export function mayGrow(
  stream: string,
  last: { seq: number; boot_id: string },
  { keep_boot, living }: PruneQuery,
): boolean {
  if (last.boot_id !== keep_boot) return false;
  // A conversation has no machine in memory most of the time.
  if (living === undefined || stream.startsWith(CONVERSATION)) return true;
  return last.seq > living.seq || living.streams.includes(stream);
}

function prepare(db: Database.Database) {
  const ids = <P extends unknown[]>(query: string) => db.prepare<P, string>(query).pluck();
  return {
    aged: db.prepare<[number, number], Moment & { run_id: string }>(
      'select run_id, seq, ended_at as at from runs where finished = 1 and ended_at < ? ' +
        'and seq < ? order by ended_at',
    ),
    firstFrom: db.prepare<[number], Moment>(
      'select seq, at from events where seq >= ? order by seq limit 1',
    ),
    mayGo: ids<[string, number]>(
      'select run_id from runs where run_id = ? and finished = 1 and seq < ?',
    ),
    daemons: ids<[string]>(
      "select stream from events where type = 'daemon.boot_started' and boot_id <> ? order by seq",
    ),
    saidEvents: db
      .prepare<[string], number>(
        `select sum((select max(version) from events e where e.stream = b.stream)) from events b
         where b.type = 'daemon.boot_started' and b.boot_id <> ?`,
      )
      .pluck(),
    oldestKept: db.prepare<[], number | null>('select min(accepted_seq) from runs').pluck(),
    starts: ids<[number]>(
      "select stream from events where version = 1 and type <> 'run.accepted' " +
        'and seq < ? order by seq',
    ),
    lastOf: db.prepare<[string], { seq: number; version: number; at: number; boot_id: string }>(
      'select seq, version, at, boot_id from events where stream = ? order by version desc limit 1',
    ),
    bytesOf: db
      .prepare<[string, number], number>(
        `select sum(octet_length(data) + ${ROW_BYTES}) from events
         where stream = ? and version > ?`,
      )
      .pluck(),
    eventsOf: db.prepare<[string, number], RemovedEvents>(
      'select seq, hash from events where stream = ? and version > ?',
    ),
    eventTexts: ids<[string, number]>(
      `select data from events where stream = ? and version > ? and ${REFERRING}`,
    ),
    runTexts: ids<[string]>(`select data from runs where run_id = ? and ${REFERRING}`),
    deleteEvents: db.prepare<[string, number]>(
      'delete from events where stream = ? and version > ?',
    ),
    deleteRun: db.prepare<[string]>('delete from runs where run_id = ?'),
  };
}
