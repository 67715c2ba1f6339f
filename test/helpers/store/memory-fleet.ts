import { SvcError } from '../../../src/errors.ts';
import {
  type CancelAsk,
  type ClaimedRun,
  type ClaimQuery,
  type Fleet,
  type FleetChange,
  keyOf,
  type SharedStore,
  type WantedFile,
  type WantedModel,
} from '../../../src/fleet/port.ts';
import type { Commit } from '../../../src/kernel/store/port.ts';
import { fromEventRow, toRows } from '../../../src/kernel/store/row.ts';
import { createStore } from '../../../src/kernel/store/store.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { accessTo, askerOf, inTurns, type Line, MemoryLog } from './memory.ts';
import { type Epoch, type Lease, MemoryLeases } from './memory-leases.ts';

/**
 * A fleet in memory: the promises of the one in PostgreSQL, except durability. It owns the log, the
 * owners of runs, the keys and the cancels.
 *
 * 1. Every call is one turn, so each is a transaction.
 * 2. `now` is the clock of the database. Nothing else measures a lease.
 */
export class MemoryFleet {
  readonly log = new MemoryLog();
  private readonly now: () => number;
  private readonly leases: MemoryLeases;
  /** Unfinished runs, by id. */
  private readonly owners = new Map<string, Owner>();
  private readonly keys = new Map<string, Reservation>();
  private asked: CancelAsk[] = [];
  private readonly listeners = new Set<(change: FleetChange) => void>();

  constructor(now: () => number, lease_ms = defaultLimits.lease_ms) {
    this.now = now;
    this.leases = new MemoryLeases(now, lease_ms);
  }

  /** The access of one daemon. It is a node once it has joined. */
  store(): SharedStore {
    const access = accessTo(this.log);
    let lease: Lease | null = null;
    const held = () => this.leases.hold(lease);
    const call =
      <A extends unknown[], R>(work: (...args: A) => R) =>
      async (...args: A): Promise<R> => {
        access.assertOpen();
        return work(...args);
      };
    const fleet: Fleet = {
      join: call((node, replaces) => {
        const { granted, joined } = this.leases.join(node, replaces);
        lease = granted;
        return joined;
      }),
      renew: call((load) => this.leases.renew(lease, load)),
      leave: call(() => {
        if (lease !== null && this.leases.leave(lease)) this.freeAll(lease.node_id);
      }),
      nodes: call(() => this.leases.rows()),
      drain: call((node_id) => {
        const drains = this.leases.drain(node_id);
        if (drains) this.tell({ asks: true });
        return drains;
      }),
      takeOver: call(() =>
        this.leases.takeOver(held()).map((lost) => ({ ...lost, runs: this.freeAll(lost.node_id) })),
      ),
      release: call((run_ids) => this.release(held(), run_ids)),
      keepFor: call((run_id, file, ms) => this.keepFor(held(), run_id, file, ms)),
      keepOn: call((files, ms) => {
        held();
        for (const kept of this.keptNow())
          if (files.some((one) => keyOf(one) === keyOf(kept))) kept.until = this.now() + ms;
      }),
      claim: call((query) => this.claim(held(), query)),
      claimRun: call((run_id) => this.claimRun(held(), run_id)),
      ownerOf: call((run_id) => this.owners.get(run_id)?.node_id ?? null),
      look: call(({ most, left_ms, lists, listed }) => ({
        last_seq: this.log.lastSeq,
        late: this.leases.isAnyLate,
        asks: this.asked.length > 0,
        waiting: {
          runs: Math.min(most, this.fairly().length),
          due: this.fairly((line) => this.isDue(line)),
          wanted: distinct(this.keptNow().map(({ until: _, ...file }) => file)),
          unlisted: this.unlisted(lists, new Set(listed)),
          left: this.fairly(({ run_id }) => this.isLeft(run_id, left_ms)),
        },
      })),
      position: call((run_id) => placeOf(this.fairly(), run_id)),
      reserveKey: call((key, run_id) => this.reserveKey(held(), key, run_id)),
      freeKey: call((key, run_id) => {
        if (this.keys.get(key)?.run_id === run_id) this.keys.delete(key);
      }),
      ask: call((run_id, by) => this.ask(run_id, by)),
      listCancels: call(() => this.asksOf(held())),
      lastSeq: call(() => this.log.lastSeq),
      time: call(() => this.now()),
      onChange: (listener, signal) => {
        if (signal.aborted) return;
        this.listeners.add(listener);
        signal.addEventListener('abort', () => this.listeners.delete(listener), { once: true });
      },
    };
    return {
      ...createStore(access),
      fleet,
      append: call((commit) => this.append(held(), commit)),
      unfinishedRuns: call(() => {
        const node_id = lease?.node_id ?? null;
        const mine = (line: Line) =>
          node_id !== null && this.owners.get(line.run_id)?.node_id === node_id;
        return this.log.oldestFirst().filter(mine).map(idOf);
      }),
    };
  }

  private append(lease: Lease, commit: Commit): { full: boolean; first_seq: number } {
    const { events, runs } = commit;
    for (const { stream } of events) this.assertOwner(lease, stream);
    const first_seq = this.log.lastSeq + 1;
    const moved = first_seq - (events[0]?.seq ?? first_seq);
    const { full } = this.log.append(
      toRows({
        events: events.map((event, index) => ({ ...event, seq: first_seq + index })),
        runs: runs.map((row) => ({
          ...row,
          seq: row.seq + moved,
          record: row.record === null ? null : { ...row.record, seq: row.seq + moved },
        })),
      }),
    );
    this.leases.sees(lease.boot_id);
    for (const { run_id, finished } of runs) {
      if (finished) this.owners.delete(run_id);
      else if (!this.owners.has(run_id)) this.owners.set(run_id, own(lease.node_id));
    }
    this.tell({ streams: [...new Set(events.map(({ stream }) => stream))] });
    return { full, first_seq };
  }

  private assertOwner({ node_id }: Lease, stream: string): void {
    const line = this.log.runOf(stream);
    if (line !== undefined && this.owners.get(stream)?.node_id !== node_id)
      throw new SvcError('lease_lost', `The run ${stream} is not one of this node.`);
  }

  /** Releases the runs of a node that is gone. Answers how many. */
  private freeAll(node_id: string): number {
    const runs = [...this.owners].filter(([, owner]) => owner.node_id === node_id);
    for (const [run_id] of runs) this.free(run_id);
    this.tell({ waiting: true });
    return runs.length;
  }

  private free(run_id: string): void {
    this.owners.set(run_id, {
      since: this.now(),
      node_id: null,
      waits: this.log.runOf(run_id)?.state === 'queued',
      kept: null,
    });
  }

  private release({ node_id }: Lease, run_ids: readonly string[]): void {
    const mine = run_ids.filter(
      (run_id) =>
        this.owners.get(run_id)?.node_id === node_id && this.log.runOf(run_id)?.state === 'queued',
    );
    for (const run_id of mine) this.free(run_id);
    if (mine.length > 0) this.tell({ waiting: true });
  }

  /** A later claim gives it to a node with the file, or to any one when the time is over. */
  private keepFor({ node_id }: Lease, run_id: string, file: string, ms: number): void {
    const line = this.log.runOf(run_id);
    if (line === undefined || this.owners.get(run_id)?.node_id !== node_id) return;
    const { provider, data } = line;
    const { model } = JSON.parse(data) as { model: string };
    const kept = { provider, model, file, until: this.now() + ms };
    this.owners.set(run_id, { since: this.now(), node_id: null, waits: false, kept });
    this.tell({ waiting: true });
  }

  /** Of runs without an owner, as long as their time is not over. */
  private keptNow(): Kept[] {
    return [...this.owners.values()].flatMap(({ node_id, kept }) =>
      node_id === null && kept !== null && kept.until > this.now() ? kept : [],
    );
  }

  private claim(lease: Lease, { providers, models, files, limit }: ClaimQuery): ClaimedRun[] {
    const open = this.keptNow();
    const suits = ({ run_id, provider, data }: Line) => {
      const { model } = JSON.parse(data) as { model: string };
      const { node_id, kept = null } = this.owners.get(run_id) ?? {};
      return (
        node_id === null &&
        (providers.includes(provider) || models.includes(`${provider}/${model}`)) &&
        (kept === null || !open.includes(kept) || files.some((one) => keyOf(one) === keyOf(kept)))
      );
    };
    return this.fairly(suits)
      .slice(0, Math.max(0, limit))
      .map((run_id) => this.take(lease, run_id));
  }

  private claimRun(lease: Lease, run_id: string): ClaimedRun | null {
    return this.owners.get(run_id)?.node_id === null ? this.take(lease, run_id) : null;
  }

  private unlisted(lists: readonly string[], listed: ReadonlySet<string>): WantedModel[] {
    const found = this.log.oldestFirst().flatMap(({ run_id, provider, data }) => {
      const { model } = JSON.parse(data) as { model: string };
      const waits = this.owners.get(run_id)?.node_id === null && lists.includes(provider);
      return waits && !listed.has(`${provider}/${model}`) ? { provider, model } : [];
    });
    return distinct(found);
  }

  private isLeft(run_id: string, left_ms: number): boolean {
    const { node_id, waits, kept = null, since = 0 } = this.owners.get(run_id) ?? {};
    const isKept = kept !== null && kept.until > this.now();
    return node_id === null && !waits && !isKept && since + left_ms <= this.now();
  }

  private isDue({ run_id, due_at }: Line): boolean {
    return this.owners.get(run_id)?.waits === true && due_at !== null && due_at <= this.now();
  }

  private take({ node_id }: Lease, run_id: string): ClaimedRun {
    const { waits = false, kept = null } = this.owners.get(run_id) ?? {};
    this.owners.set(run_id, own(node_id));
    const last = this.log.lastEvent(run_id);
    const downtime_ms = waits ? 0 : (this.leases.unseen(last?.boot_id ?? '') ?? 0);
    const events = waits ? this.log.readStream(run_id, 1, Number.POSITIVE_INFINITY) : null;
    return {
      run_id,
      waits,
      kept: kept !== null,
      downtime_ms,
      events: events?.map(fromEventRow) ?? null,
    };
  }

  /**
   * Runs without an owner: the asker with the fewest runs before it, then its client with the
   * fewest, and then the oldest.
   */
  private fairly(suits: (line: Line) => boolean = () => true): string[] {
    const lines = this.log.oldestFirst().filter(({ run_id }) => this.owners.has(run_id));
    const isFree = ({ run_id }: Line) => this.owners.get(run_id)?.node_id === null;
    const busy = lines.filter((line) => !isFree(line));
    const waiting = lines.filter((line) => isFree(line) && suits(line));
    return inTurns(
      inTurns(waiting, busy, ({ client }) => client ?? ''),
      busy,
      askerOf,
    ).map(idOf);
  }

  private reserveKey({ node_id, epoch }: Lease, key: string, run_id: string): string {
    const accepted = this.log.runOfKey(key);
    if (accepted !== null) return accepted;
    const before = this.keys.get(key);
    // A run that was accepted and has no such key has given it up.
    if (
      before !== undefined &&
      this.log.runOf(before.run_id) === undefined &&
      this.leases.isPresent(before)
    )
      return before.run_id;
    this.keys.set(key, { run_id, node_id, epoch });
    return run_id;
  }

  private ask(run_id: string, by: string): void {
    if (!this.owners.has(run_id) || this.asked.some((ask) => ask.run_id === run_id)) return;
    this.asked.push({ run_id, by });
    this.tell({ asks: true });
  }

  private asksOf({ node_id }: Lease): CancelAsk[] {
    this.asked = this.asked.filter(({ run_id }) => this.owners.has(run_id));
    return this.asked.filter(({ run_id }) => this.owners.get(run_id)?.node_id === node_id);
  }

  private tell(change: Partial<FleetChange>): void {
    const whole = {
      last_seq: this.log.lastSeq,
      streams: [],
      waiting: false,
      asks: false,
      ...change,
    };
    for (const listener of this.listeners)
      queueMicrotask(() => {
        if (this.listeners.has(listener)) listener(whole);
      });
  }
}

/** Who has a run of a fleet in memory. */
interface Owner {
  /** When it was released. */
  since: number;
  node_id: string | null;
  waits: boolean;
  kept: Kept | null;
}

/** A run that is kept for a file, and how long. */
type Kept = WantedFile & { until: number };

type Reservation = Epoch & { run_id: string };

function own(node_id: string): Owner {
  return { since: 0, node_id, waits: false, kept: null };
}

function placeOf(run_ids: readonly string[], run_id: string): number | null {
  const index = run_ids.indexOf(run_id);
  return index < 0 ? null : index + 1;
}

function idOf({ run_id }: { run_id: string }): string {
  return run_id;
}

/** Each of them once. */
function distinct<T extends WantedModel>(all: readonly T[]): T[] {
  return [...new Map(all.map((one) => [keyOf(one), one])).values()];
}
