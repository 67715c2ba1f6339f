import type { ClientBase } from 'pg';
import { SvcError } from '../../errors.ts';
import { CONVERSATION, titleStream } from '../../kernel/store/places.ts';
import type { PruneQuery, PruneReport } from '../../kernel/store/port.ts';
import { SAID, type SizedRun, Surplus } from '../../kernel/store/prune/order.ts';
import { type Moment, oldAtSteps } from '../../kernel/store/prune/run-age.ts';
import { HOUR_MS } from '../../kernel/store/usage-sums.ts';
import type { HeldLease } from './append/appends.ts';
import { fromColumn, ROW_BYTES } from './columns.ts';
import type { Connections } from './connections.ts';
import { dropUnused, ownBytes, releaseTexts, TEXT_BYTES, usesOf } from './texts.ts';
import { foldUsage } from './usage.ts';

/** The lock of the node that removes history: the letters `svcr`. */
const REMOVAL_LOCK = 0x73766372;
/** Runs that one step measures, and runs that it looks at in one page. */
const STEP_RUNS = 500;
/** Streams of old boots that one step removes. */
const STEP_STREAMS = 500;

/**
 * Removes history, in steps of one transaction. One node of the fleet does so at a time, and only
 * with its lease.
 *
 * 1. A run goes whole: its events, its row, its words, and the texts that no other one needs. Its
 *    usage stays counted.
 * 2. `svc_log.removed` counts the events that have gone, in the same transaction.
 * 3. The lock of the log comes last, so that commits wait for no search.
 */
export class Removal {
  private readonly connections: Connections;
  private readonly lease: HeldLease;
  /** The rest of the round's surplus. Null between rounds. */
  private surplus: Surplus | null = null;

  constructor(connections: Connections, lease: HeldLease) {
    this.connections = connections;
    this.lease = lease;
  }

  prune(query: PruneQuery): Promise<PruneReport> {
    return this.step(async (client) => {
      const step = new PruneStep(client, query, this.surplus);
      this.surplus = null;
      const report = await step.run();
      this.surplus = report.more ? step.surplus : null;
      return report;
    });
  }

  removeRun(run_id: string): Promise<PruneReport> {
    return this.step(async (client) => {
      const { rows } = await client.query(
        `select 1 from svc_runs where run_id = $1 and finished
           and seq < (select last_seq from svc_log where id = 1)
           and not exists (select 1 from svc_events, svc_log where stream = $2 and seq >= last_seq)`,
        [run_id, titleStream(run_id)],
      );
      if (rows.length === 0) return NOTHING;
      const { events } = await removeStreams(client, [run_id, titleStream(run_id)]);
      return { runs: 1, events, more: false };
    });
  }

  private async step(work: (client: ClientBase) => Promise<PruneReport>): Promise<PruneReport> {
    const { node_id, epoch } = this.lease.current();
    return this.connections.transaction(async (client) => {
      const { rows } = await client.query<{ valid: boolean; free: boolean }>(
        `select until > clock_timestamp() as valid, pg_try_advisory_xact_lock($3) as free
         from svc_nodes where node_id = $1 and epoch = $2 for share`,
        [node_id, epoch, REMOVAL_LOCK],
      );
      const [fence] = rows;
      if (fence === undefined) throw new SvcError('lease_lost');
      // A late lease, or another node at it: a later round does it.
      return fence.valid && fence.free ? work(client) : NOTHING;
    });
  }
}

const NOTHING: PruneReport = { runs: 0, events: 0, more: false };

interface Removed {
  events: number;
  bytes: number;
}

/** Removes these streams, with the rows of their runs and their texts. */
async function removeStreams(client: ClientBase, streams: readonly string[]): Promise<Removed> {
  if (streams.length === 0) return { events: 0, bytes: 0 };
  const uses = await usesOf(client, streams);
  const { rows } = await client.query<Removed>(
    `with gone as (delete from svc_events where stream = any($1) returning octet_length(data) as bytes),
       gone_runs as (delete from svc_runs where run_id = any($1)
         returning octet_length(data) + ${ROW_BYTES} as bytes),
       gone_words as (delete from svc_words where run_id = any($1)),
       gone_asks as (delete from svc_asks where run_id = any($1)),
       gone_keys as (delete from svc_keys where run_id = any($1)),
       counted as (select count(*) as events, coalesce(sum(bytes + ${ROW_BYTES}), 0) as bytes from gone)
     update svc_log set removed = removed + counted.events, bytes = svc_log.bytes - counted.bytes
       from counted where id = 1 returning counted.events,
         (counted.bytes + (select coalesce(sum(bytes), 0) from gone_runs))::float8 as bytes`,
    [streams],
  );
  const { events = 0, bytes = 0 } = rows[0] ?? {};
  return { events, bytes: bytes + (await releaseTexts(client, uses)) };
}

/** One step of removing old or surplus history. */
class PruneStep {
  private readonly client: ClientBase;
  private readonly query: PruneQuery;
  private runs = 0;
  private events = 0;
  /** Bytes that could be removed; null until it is needed. */
  private removable: number | null = null;
  /** Measured by the step of the round that needs it first. */
  surplus: Surplus | null;

  constructor(client: ClientBase, query: PruneQuery, surplus: Surplus | null) {
    this.client = client;
    this.query = query;
    this.surplus = surplus;
  }

  async run(): Promise<PruneReport> {
    const { max_bytes, limit, clock } = this.query;
    if (clock !== undefined && (await this.fold(clock.now)))
      return { runs: 0, events: 0, more: true };
    if (max_bytes !== null && (await this.measure())) return { runs: 0, events: 0, more: true };
    await dropUnused(this.client);
    const last = await this.lastEvent();
    if (last === null) return NOTHING;
    await this.removeAged(last);
    await this.removeBoots(false);
    if (await this.isOver()) {
      await this.removeSurplus(last);
      await this.removeBoots(await this.isOver());
    }
    const more = this.runs >= limit;
    const over = !more && (await this.isOver());
    return { runs: this.runs, events: this.events, more, ...(over ? { over } : {}) };
  }

  private fold(now: number): Promise<boolean> {
    return foldUsage((text, values = []) => this.all(text, [...values]), Math.floor(now / HOUR_MS));
  }

  /** Measures finished runs. True if there may be more of them. */
  private async measure(): Promise<boolean> {
    const { rowCount } = await this.client.query(
      `update svc_runs set bytes = octet_length(data) + ${ROW_BYTES} + coalesce((
           select sum(octet_length(e.data) + ${ROW_BYTES}) from svc_events e where e.stream = run_id), 0)
           + (${ownBytes('select data from svc_events e where e.stream = run_id union all select svc_runs.data')})
         where run_id in (select run_id from svc_runs where finished and bytes is null limit $1)`,
      [STEP_RUNS],
    );
    return (rowCount ?? 0) >= STEP_RUNS;
  }

  private async lastEvent(): Promise<Moment | null> {
    return (
      (await this.all<Moment>('select seq, at from svc_events order by seq desc limit 1'))[0] ??
      null
    );
  }

  private async removeAged(last: Moment): Promise<void> {
    const { before_at, limit } = this.query;
    if (before_at === null) return;
    const old: string[] = [];
    let after: Moment = { at: Number.NEGATIVE_INFINITY, seq: 0 };
    while (old.length < limit) {
      const page = await this.all<Moment & { run_id: string }>(
        `select run_id, seq, ended_at as at from svc_runs
           where finished and ended_at < $1 and seq < $2 and (ended_at, seq) > ($3, $4)
           order by ended_at, seq limit $5`,
        [before_at, last.seq, after.at, after.seq, STEP_RUNS],
      );
      for (const run of page)
        if (old.length < limit && (await this.isOld(run, last))) old.push(run.run_id);
      const end = page.at(-1);
      if (end === undefined || page.length < STEP_RUNS) break;
      after = end;
    }
    await this.remove(old);
  }

  /** Whether its time is over, also if a clock has jumped. */
  private async isOld(run: Moment, last: Moment): Promise<boolean> {
    const { before_at, clock } = this.query;
    if (before_at === null || clock === undefined) return true;
    const { now, even_since } = clock;
    const steps = oldAtSteps(run, last, { keep_ms: now - before_at, even_since });
    let step = steps.next();
    while (!step.done) {
      const [found] = await this.all<Moment>(
        'select seq, at from svc_events where seq >= $1 order by seq limit 1',
        [step.value],
      );
      step = steps.next(found);
    }
    return step.value <= now;
  }

  /**
   * Removes old boots that are before each run. From a log that is too large (`over`) events of
   * earlier daemons go too, wherever they are. Boots of present nodes stay, but for the streams of
   * this one whose machines are gone.
   */
  private async removeBoots(over: boolean): Promise<void> {
    const { before_at, keep_boot, living } = this.query;
    if (before_at === null && !over) return;
    const found = await this.all<{ stream: string; bytes: number; aged: boolean }>(
      `with log as (select last_seq as seq from svc_log where id = 1),
       kept as (select coalesce(min(accepted_seq), (select seq from log)) as seq from svc_runs),
       found as (select e.stream, e.seq, e.type from svc_events e, kept
         where e.version = 1 and e.type <> 'run.accepted'
           and (e.seq < kept.seq or ($2 and e.type = 'daemon.boot_started')) order by e.seq)
       select found.stream, (select sum(octet_length(data) + ${ROW_BYTES}) from svc_events e
           where e.stream = found.stream) as bytes, last.at < $3 and last.seq < kept.seq as aged
         from found, kept, log, lateral (select seq, at, boot_id from svc_events e
           where e.stream = found.stream order by version desc limit 1) as last
         where (last.boot_id <> $1 and last.boot_id not in (select boot_id from svc_nodes)
             or last.boot_id = $1 and last.seq <= $5 and found.stream <> all($6)
               and not starts_with(found.stream, '${CONVERSATION}'))
           and last.seq < log.seq
           and (last.seq < kept.seq or ($2 and found.type = 'daemon.boot_started'))
           and ($2 or last.at < $3) order by found.seq limit $4`,
      [
        keep_boot,
        over,
        before_at ?? Number.NEGATIVE_INFINITY,
        STEP_STREAMS,
        living?.seq ?? -1,
        living?.streams ?? [],
      ],
    );
    const streams: string[] = [];
    for (const { stream, bytes, aged } of found) {
      if (!aged && !this.exceeds(1)) continue;
      streams.push(stream);
      this.forget(bytes);
    }
    this.events += (await removeStreams(this.client, streams)).events;
  }

  private async removeSurplus(last: Moment): Promise<void> {
    this.surplus ??= await this.surplusBelow(last);
    while (this.runs < this.query.limit && this.exceeds(1)) {
      const next = this.surplus.next(() => this.exceeds(2));
      if (next === null) break;
      if (next === SAID) await this.removeBoots(true);
      else if (await this.mayGo(next, last)) this.forget(await this.remove([next.run_id]));
      this.surplus.taken();
    }
  }

  private async surplusBelow(last: Moment): Promise<Surplus> {
    const { large_bytes = INFINITE, young_at = INFINITE } = this.query;
    const found = await this.all<SizedRun>(
      `select run_id, provider, bytes, ended_at, accepted_seq from svc_runs
         where finished and seq < $1 and bytes is not null and ended_at is not null`,
      [last.seq],
    );
    const sized = found.map((run) => ({ ...run, provider: fromColumn(run.provider) }));
    return new Surplus(sized, { large_bytes, young_at, said_bytes: await this.saidBytes() });
  }

  /** Another node, or a person, may have removed it since it was measured. */
  private async mayGo({ run_id }: SizedRun, last: Moment): Promise<boolean> {
    const found = await this.all(
      'select 1 from svc_runs where run_id = $1 and finished and seq < $2',
      [run_id, last.seq],
    );
    return found.length > 0;
  }

  private async saidBytes(): Promise<number> {
    const [said] = await this.all<{ bytes: number }>(
      `select coalesce(sum((select max(version) from svc_events e where e.stream = b.stream)), 0)
         * ${ROW_BYTES}::float8 as bytes from svc_events b
       where b.type = 'daemon.boot_started' and b.boot_id <> $1
         and b.boot_id not in (select boot_id from svc_nodes)`,
      [this.query.keep_boot],
    );
    return said?.bytes ?? 0;
  }

  /** Answers the bytes that they had. */
  private async remove(run_ids: readonly string[]): Promise<number> {
    const { events, bytes } = await removeStreams(this.client, run_ids);
    this.events += events;
    this.runs += run_ids.length;
    return bytes;
  }

  private async isOver(): Promise<boolean> {
    const { max_bytes, keep_boot } = this.query;
    if (max_bytes === null) return false;
    if (this.removable === null) {
      const [size] = await this.all<{ all: number; present: number }>(
        `select (select bytes from svc_log where id = 1)
             + (select coalesce(sum(octet_length(data) + ${ROW_BYTES}), 0) from svc_runs where finished)
             + (${TEXT_BYTES}) as all,
           (select coalesce(sum(octet_length(e.data) + ${ROW_BYTES}), 0) from svc_events e
             where ${PRESENT}) + (${ownBytes(`select data from svc_events e where ${PRESENT}`)}) as present`,
        [keep_boot],
      );
      this.removable = (size?.all ?? 0) - (size?.present ?? 0);
    }
    return this.exceeds(1);
  }

  private exceeds(factor: number): boolean {
    return (this.removable ?? 0) > factor * (this.query.max_bytes ?? INFINITE);
  }

  private forget(bytes: number): void {
    if (this.removable !== null) this.removable -= bytes;
  }

  private async all<R extends object>(text: string, values: unknown[] = []): Promise<R[]> {
    return (await this.client.query(text, values)).rows as R[];
  }
}

/** Events that cannot be removed: of runs in progress, and of the boots of present nodes. */
const PRESENT = `e.stream in (select run_id from svc_runs where not finished
  union all select stream from svc_events where version = 1 and type <> 'run.accepted'
    and (boot_id = $1 or boot_id in (select boot_id from svc_nodes)))`;

const INFINITE = Number.POSITIVE_INFINITY;
