import type { AnyEvent } from '../../machines/events.ts';

/**
 * The port to the event log. One writer; every method may be asked at any time after `open`.
 * Implementations: `sqlite.ts` (in a worker thread) and `memory.ts`; one conformance suite holds both.
 */

/** One recorded fact. `data` is the fact without `type` and `at`. */
export interface StoredEvent {
  /** Position in the whole log, from 1; without gaps but for history that was removed. */
  seq: number;
  stream: string;
  /** Position in its stream, from 1, without gaps. */
  version: number;
  type: string;
  schema: number;
  at: number;
  boot_id: string;
  data: Record<string, unknown>;
}

/** A projection row, written in the same transaction as the facts it comes from. */
export interface RunRow {
  run_id: string;
  state: string;
  finished: boolean;
  provider: string;
  model: string;
  created_at: number;
  /** Of one run at a time; null also for a run that gave its key up. */
  idempotency_key: string | null;
  /** SHA-256, in hex, of what was asked. */
  request_digest: string | null;
  /** The whole record, once the run is finished; null before. */
  record: Record<string, unknown> | null;
  seq: number;
}

/** A run of a list whose row is damaged, and whose events do not tell it any more. */
export interface DamagedRun {
  run_id: string;
  /** What is wrong, as a sentence. */
  damage: string;
}

export interface BootRow {
  boot_id: string;
  at: number;
}

export interface Commit {
  /** In log order; `seq` continues the log, `version` continues each stream: anything else is refused whole. */
  events: StoredEvent[];
  runs: RunRow[];
}

export interface OpenReport {
  /** The first event that the log still has; in an empty log, the next. */
  first_seq: number;
  last_seq: number;
  /** The daemon stream of the boot before, if there was one. */
  last_boot_id: string | null;
  /** What the database really does, read back. */
  durability: { journal_mode: string; synchronous: string };
  /** The disk is full: there is no reserve. */
  full: boolean;
}

export interface RunQuery {
  limit: number;
  /** Runs older than this one, in the order newest first. */
  before?: string;
  state?: string;
  provider?: string;
  /** With the beginning of their texts only. */
  short?: boolean;
}

/** A run without what it holds. */
export interface RunHead {
  finished: boolean;
  seq: number;
}

export interface VerifyReport {
  ok: boolean;
  events: number;
  /** What was found, empty when ok. */
  problems: string[];
}

/** What the slow check of a log in use has found. */
export interface VerifiedReport {
  /** Where the present round has come to. */
  seq: number;
  /** When the last whole round ended; null when there was none. */
  at: number | null;
  /** No round is under way. */
  complete: boolean;
  /** What is damaged, in sentences; the first of them. */
  problems: string[];
  /** How many places are known to be damaged. */
  damaged: number;
}

export interface PruneQuery {
  /** Runs that ended before go; null: none is too old. */
  before_at: number | null;
  /** As long as what can be removed takes more, what tells of old boots and then finished runs go, in the order of `pruneOrder`; null: no bound. */
  max_bytes: number | null;
  /** Of the order: a larger run is large, a run that ended later is young. Without them none is. */
  large_bytes?: number;
  young_at?: number;
  /** For `before_at`: the present time, and since when its clock has run without a leap. Without it each clock is believed. */
  clock?: { now: number; even_since: number };
  /** The present boot, of which nothing but finished runs is removed. */
  keep_boot: string;
  /** Runs removed in one step. */
  limit: number;
}

export interface PruneReport {
  runs: number;
  events: number;
  /** There is more to do: ask again. */
  more: boolean;
  /** After the last step: the log takes more than `max_bytes`, and all that could go is young. */
  over?: boolean;
  /** After the last step: why what was committed cannot be written back into the database. */
  trouble?: string;
}

export interface EventStore {
  /** Takes exclusive ownership. Throws daemon_already_running, store_foreign, store_corrupt, store_tail_lost, home_unusable. */
  open(): Promise<OpenReport>;
  /**
   * Resolves only when the commit is durable. `full`: the disk is, and the reserve was used.
   * A rejection other than store_conflict and store_full, which change nothing, leaves the outcome unknown.
   */
  append(commit: Commit): Promise<{ full: boolean }>;
  /** Puts the reserve back, if it was used: true when it is there. */
  reserve(): Promise<boolean>;
  /** Gives the space of the reserve to what else must be written on a full disk: false when there was none to give. */
  spendReserve(): Promise<boolean>;
  /** Gives fewer than `limit` when they are large; none means that there are no more. */
  readStream(stream: string, fromVersion: number, limit: number): Promise<StoredEvent[]>;
  /** Of a stream, found without reading the others; null when it has none. */
  lastEvent(stream: string): Promise<StoredEvent | null>;
  /** As `readStream`, over the whole log. */
  readAll(fromSeq: number, limit: number): Promise<StoredEvent[]>;
  /** Newest first, by the order of the log. Gives fewer than `limit` when they are large; none means that there are no more, or no run `before`. A damaged run is marked. */
  listRuns(query: RunQuery): Promise<(RunRow | DamagedRun)[]>;
  getRun(run_id: string): Promise<RunRow | null>;
  /** The record of a finished run as JSON, of which no text or object was made; null for a run that is unfinished or not there. */
  readRecord(run_id: string): Promise<Uint8Array | null>;
  /** Of a run, found without reading its texts. */
  runHead(run_id: string): Promise<RunHead | null>;
  /** The run that was accepted with this key, and holds it still. */
  getRunByKey(idempotency_key: string): Promise<RunRow | null>;
  /** Ids of the runs that have no terminal fact, oldest first. */
  unfinishedRuns(): Promise<string[]>;
  /** Ids, oldest first, of the runs that were accepted at or before an event, and are unfinished or have their last event at or after it. */
  runsAt(seq: number, limit: number): Promise<string[]>;
  /** Streams other than runs whose first event lies in this part of the log, in its order. */
  startedStreams(from_seq: number, to_seq: number, limit: number): Promise<string[]>;
  countRuns(): Promise<{ finished: number; unfinished: number }>;
  /** One small step of removing history; see `pruner.ts`. Throws store_full, and then nothing has changed. */
  prune(query: PruneQuery): Promise<PruneReport>;
  /** Reads everything and checks it: the chain of hashes, the numbering, the database's own check. */
  verify(): Promise<VerifyReport>;
  /** One small part of a check that goes round the whole log, beginning again when `restart`. `done`: the round is complete. What can be made again from the events is. */
  verifyPart(now: number, restart: boolean): Promise<{ done: boolean; report: VerifiedReport }>;
  /** What that check knows. */
  verified(): Promise<VerifiedReport>;
  /** After what was asked before. Then only `open` may be asked again; everything else is refused with store_failed. */
  close(): Promise<void>;
}

/** The row of a run, folded from its events; null where they do not tell it, or not any more. */
export type Project = (
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
) => Promise<RunRow | null>;

/** Thrown (as `code`) when a commit does not continue what is stored, or cannot be stored: a programmer's error of the writer. Nothing was changed. */
export const CONFLICT = 'store_conflict';

/** The fact back from its stored form. */
export function toFact(event: StoredEvent): AnyEvent {
  return { ...event.data, type: event.type, at: event.at } as AnyEvent;
}
