import type { Addresses } from '../../machines/daemon/context.ts';
import type { EventStore, StoredEvent } from '../kernel/store/port.ts';

/**
 * The port to what the nodes of a fleet share besides the log: leases, owners of runs, keys and
 * requests to cancel. A log with one writer has none.
 *
 * 1. All times are of one clock, that of the database. The clock of a node decides nothing.
 * 2. A node that another one has taken over can write nothing: its epoch is not the present one.
 *    Then each method, and each append, throws lease_lost.
 * 3. A lease that ended, but was not taken over, is late. The next call renews it first.
 * 4. A run has one owner at a time. Only the owner appends to it.
 *
 * All methods except `onChange` throw store_stalled while the database does not answer.
 */
export interface Fleet {
  /**
   * Takes the lease of this node, with a new epoch. `replaces`: an earlier boot of this node that
   * has surely ended. Throws daemon_already_running while another boot has the lease, with the rest
   * of it as `retry_after_ms`.
   */
  join(node: NodeFacts, replaces: string | null): Promise<JoinResult>;
  /** Extends the lease. `lost`: another node took it over, or another boot joined. */
  renew(load: NodeLoad): Promise<Renewal>;
  /** Releases the lease and all unfinished runs of this node. A lost lease is no error. */
  leave(): Promise<void>;
  /** Every known node, by its id. It also works without a lease. */
  nodes(): Promise<NodeRow[]>;
  /** Asks a node to finish its work and stop. False if no such node has a lease. */
  drain(node_id: string): Promise<boolean>;
  /**
   * Fences the nodes whose lease has ended, and releases their runs. Without effect for one lease
   * after an own late renewal: all leases end while the database is away.
   */
  takeOver(): Promise<TakenOver[]>;
  /** Releases runs of this node that wait. Other runs stay as they are. */
  release(run_ids: readonly string[]): Promise<void>;
  /**
   * Releases a run that was cut off, and keeps it for a node with this model file. Until the time
   * is over, only a claim that names the file takes it.
   */
  keepFor(run_id: string, file: string, ms: number): Promise<void>;
  /** The time of the runs that are kept for these files begins again. */
  keepOn(files: readonly WantedFile[], ms: number): Promise<void>;
  /** Takes runs without an owner, in the fair order across clients. */
  claim(query: ClaimQuery): Promise<ClaimedRun[]>;
  /** Takes one run without an owner, such as for a cancel. Null if it has an owner or has ended. */
  claimRun(run_id: string): Promise<ClaimedRun | null>;
  /** The node that has an unfinished run; null if it has none. */
  ownerOf(run_id: string): Promise<string | null>;
  /** What a node looks for at each poll. */
  look(query: LookQuery): Promise<Look>;
  /** The place of a run without an owner in the fair order, from 1; null for any other run. */
  position(run_id: string): Promise<number | null>;
  /**
   * Reserves an idempotency key. Answers the run that has it: this one, or another. The
   * reservation of a lost epoch, without a run, is replaced.
   */
  reserveKey(key: string, run_id: string): Promise<string>;
  /** Ends the reservation of a run that was not accepted. */
  freeKey(key: string, run_id: string): Promise<void>;
  /** Asks the owner of a run to cancel it. */
  ask(run_id: string, by: string): Promise<void>;
  /** The requests to cancel unfinished runs of this node, oldest first. */
  listCancels(): Promise<CancelAsk[]>;
  /** Position of the last event of the log, of any node. */
  lastSeq(): Promise<number>;
  /** The time of the database, in milliseconds since the epoch. */
  time(): Promise<number>;
  /** Hears of changes by any node. A change may be heard late, twice, or joined with others. */
  onChange(listener: (change: FleetChange) => void, signal: AbortSignal): void;
}

/** A log that several nodes write. Its `append` assigns the positions. */
export interface SharedStore extends EventStore {
  readonly fleet: Fleet;
}

export interface NodeFacts {
  node_id: string;
  boot_id: string;
  version: string;
  host: string;
  /** How many runs it may have at one time. */
  capacity: number;
  addresses: Addresses;
  clock?: NodeClock | null | undefined;
}

/** The system clock of a node. */
export interface NodeClock {
  /** How far it is ahead of that of the database. */
  clock_ms: number;
  /** False: it is too far from it. */
  takes_runs: boolean;
}

export interface JoinResult {
  epoch: number;
  lease_ms: number;
  /** The boot that had this node id before. */
  previous_boot_id: string | null;
}

export interface NodeLoad {
  active: number;
  capacity: number;
  clock?: NodeClock | null | undefined;
}

/** `drain`: the lease is extended, and the node should stop. */
export type Renewal = 'held' | 'drain' | 'lost';

/**
 * `late`: the lease has ended, and no node has taken it over yet. `lost`: one has. `left`: the node
 * stopped.
 */
export type NodeState = 'active' | 'draining' | 'late' | 'lost' | 'left';

export interface NodeRow extends NodeFacts {
  /** Null: not known, as of a node with an older program. */
  clock: NodeClock | null;
  state: NodeState;
  epoch: number;
  /** Since when this boot has its lease. */
  since: number;
  /** Unfinished runs, as the node said at its last renewal. */
  active: number;
  /** 0 once the lease has ended. */
  lease_ms_left: number;
}

export interface TakenOver {
  node_id: string;
  /** The boot whose lease was lost, and its epoch. */
  boot_id: string;
  epoch: number;
  /** Runs that were released. */
  runs: number;
}

export interface ClaimQuery {
  /** Providers of this node, for each model. */
  providers: readonly string[];
  /** Models of this node at further providers, as `provider/model`. */
  models: readonly string[];
  /** Files of this node for which runs are kept. */
  files: readonly WantedFile[];
  limit: number;
}

/** A model file, as its digest or as what identifies it on one disk, behind a name. */
export interface WantedFile extends WantedModel {
  file: string;
}

export interface WantedModel {
  provider: string;
  model: string;
}

/** The wanted model or file, as one text. */
export function keyOf({ provider, model, file }: WantedModel & Partial<WantedFile>): string {
  return `${provider}/${model}${file === undefined ? '' : ` ${file}`}`;
}

export interface ClaimedRun {
  run_id: string;
  /** The run was queued when it was released. Otherwise it was cut off. */
  waits: boolean;
  /** The run was kept for a model file. This node has it, or no other one said so in time. */
  kept: boolean;
  /** The time since the boot of its last event was last seen. */
  downtime_ms: number;
  /** All its events, if it waited and they are small. Null: read them from the log. */
  events: readonly StoredEvent[] | null;
}

export interface LookQuery {
  /** Waiting runs are counted up to this number. */
  most: number;
  /** After so long without a node, a run that was cut off is left. */
  left_ms: number;
  /** Providers of this node that list their models, and these, as `provider/model`. */
  lists: readonly string[];
  listed: readonly string[];
}

export interface Look {
  /** Position of the last event of the log, of any node. */
  last_seq: number;
  /** A lease has ended, and its node was not fenced. */
  late: boolean;
  /** A cancel is requested for a run of any node. */
  asks: boolean;
  waiting: Waiting;
}

export interface Waiting {
  /** Without an owner, up to the number. */
  runs: number;
  /** Queued runs whose deadline has come, by the clock of the database. The first ones, if many. */
  due: string[];
  /** Files for which runs are kept. The first ones, if many. */
  wanted: WantedFile[];
  /** Models of runs at providers that list theirs, and not these. The first ones, if many. */
  unlisted: WantedModel[];
  /**
   * Runs that were cut off, and that no node took for `left_ms` of the time in which one lived. The
   * first ones, if many.
   */
  left: string[];
}

export interface CancelAsk {
  run_id: string;
  by: string;
}

export interface FleetChange {
  last_seq: number;
  streams: readonly string[] | 'all';
  /** Runs may have lost their owner. */
  waiting: boolean;
  /** A cancel was requested, or a node was asked to stop. */
  asks: boolean;
}
