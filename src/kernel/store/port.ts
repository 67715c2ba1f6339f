import type { AnyEvent } from '../../../machines/events.ts';
import type { FilterColumn } from './columns.ts';
import type { Opening } from './short-run.ts';
import type { RunUsage } from './usage.ts';
import type { UsageQuery, UsageSums } from './usage-sums.ts';

/**
 * The port to the event log. It has one writer. After `open`, any method may be called at any
 * time. Implementations: `sqlite/` in a worker thread, and that of a fleet. Both pass one
 * conformance suite, as does the store in memory of the tests.
 */

/** One recorded event. `data` is the event without `type` and `at`. */
export interface StoredEvent {
  /** Position in the whole log, from 1. Only removed history leaves gaps. */
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

/** A projection row, written in the transaction of its events. */
export interface RunRow {
  run_id: string;
  state: string;
  finished: boolean;
  provider: string;
  model: string;
  created_at: number;
  /** One run at a time has a key. Null also if the run gave it up. */
  idempotency_key: string | null;
  /** SHA-256 of the request, in hex. */
  request_digest: string | null;
  /** The whole record of a finished run; null before. */
  record: Record<string, unknown> | null;
  seq: number;
  /** The prompt was sent to a cloud provider. */
  cloud?: boolean;
  /** The first run of its conversation. Absent: it is the first one itself. */
  conversation?: string;
  /** Where its client was, such as a folder. */
  origin?: string;
  /**
   * Its client, for the fair order of a fleet. The name of its token comes first, with a line
   * break. Reads leave it out.
   */
  client?: string;
  /** While it is queued: when it ends if it still waits. Reads leave it out. */
  due_at?: number;
  /** Its usage, when it has ended. */
  usage?: RunUsage;
  /** The record has the messages of the first event of the run. Reads leave it out. */
  repeats?: boolean;
  /** Only in a list of short runs. */
  opening?: Opening;
}

/** A run in a list that is damaged, and cannot be rebuilt from its events. */
export interface DamagedRun {
  run_id: string;
  /** The problem, as a sentence. */
  damage: string;
}

export interface BootRow {
  boot_id: string;
  at: number;
}

export interface Commit {
  /**
   * In log order. `version` continues each stream, and `seq` the log; otherwise the commit is
   * refused. A log with several writers gives the commit other positions.
   */
  events: StoredEvent[];
  runs: RunRow[];
}

export interface AppendResult {
  full: boolean;
  first_seq: number;
}

export interface OpenReport {
  /** The first event that the log still has; in an empty log, the next one. */
  first_seq: number;
  last_seq: number;
  /** The previous boot, if there was one. */
  last_boot_id: string | null;
  /** The disk is full: there is no reserve. */
  full: boolean;
}

export interface RunQuery extends Partial<Record<FilterColumn, string>> {
  limit: number;
  /** Runs older than this one; the list is newest first. */
  before?: string;
  /** Only runs that were sent to a cloud provider. */
  cloud?: boolean;
  /** Only runs of the conversation with this first run. */
  conversation?: string;
  /** Only the newest run of each conversation. */
  latest?: boolean;
  /** Only runs that were started with the token of this name. */
  asked_by?: string;
  /** Only runs that have not ended. */
  unfinished?: boolean;
  /** Shortens their texts. */
  short?: boolean;
}

export interface SearchQuery {
  /**
   * Whole words, or several in a row. With a `*` at its end, the last word may be a beginning. A
   * run has all of them, in its prompt and its answer together.
   */
  terms: readonly string[];
  /** Runs older than this one. */
  before?: string;
  /** Only runs that were started with the token of this name. */
  asked_by?: string;
  limit: number;
}

/** A finished run that has the words of a search. */
export interface FoundRun {
  run_id: string;
  state: string;
  provider: string;
  model: string;
  created_at: number;
  /** The first run of its conversation. */
  conversation: string;
  /** Some words of its prompt or its answer, around the first match. */
  snippet: string;
  /** Where the matches are in the snippet: begin and end. */
  matches: [number, number][];
}

/** A run without its texts. */
export interface RunHead {
  state: string;
  finished: boolean;
  seq: number;
  /** The first run of its conversation. */
  conversation: string;
}

/** The usage of the finished runs of a conversation, as their providers reported it. */
export interface ConversationSums {
  runs: number;
  input_tokens: number;
  output_tokens: number;
  /** Input tokens that providers had in their caches. */
  cached_tokens: number;
  /** Runs whose provider did not say all numbers. */
  unknown: number;
}

export interface VerifyReport {
  ok: boolean;
  events: number;
  /** Empty if ok. */
  problems: string[];
}

/** The findings of the slow check of a live log. */
export interface VerifiedReport {
  /** Where the current round is. */
  seq: number;
  /** When the last whole round ended; null before the first. */
  at: number | null;
  /** No round is in progress. */
  complete: boolean;
  /** The first problems, in sentences. */
  problems: string[];
  /** How many places are known to be damaged. */
  damaged: number;
}

export interface PruneQuery {
  /** Removes runs that ended before this time; null: no age limit. */
  before_at: number | null;
  /**
   * Limit of the removable bytes; null: no limit. Above it, history goes in the order of
   * `pruneOrder`.
   */
  max_bytes: number | null;
  /** For the order: a larger run is large, a run that ended later is young. Default: none. */
  large_bytes?: number;
  young_at?: number;
  /**
   * For `before_at`: the current time, and since when the clock has not jumped. Default: trusts
   * each clock.
   */
  clock?: { now: number; even_since: number };
  /** The current boot. Its finished runs are removed, and what `living` allows. */
  keep_boot: string;
  /**
   * Streams of other machines in memory, at a position of the log. Other streams that the current
   * boot began before it have ended, and go like those of earlier boots. Absent: all of them stay.
   */
  living?: { streams: readonly string[]; seq: number };
  /** Runs removed in one step. */
  limit: number;
}

export interface PruneReport {
  runs: number;
  events: number;
  /** There is more to do: call again. */
  more: boolean;
  /** After the last step: the log exceeds `max_bytes`, and all runs that could go are young. */
  over?: boolean;
  /** After the last step: why the WAL cannot be written back. */
  trouble?: string;
}

/** An event with which a run begins or ends. */
export interface RunBound {
  seq: number;
  at: number;
  type: string;
  run_id: string;
  /** The boot that accepted the run; null if its first event was removed. */
  accepted_by: string | null;
}

/** The reads of a log. Each store has a class with these methods. */
export interface LogReads {
  /** Returns fewer than `limit` events if they are large, and none at the end. */
  readStream(stream: string, fromVersion: number, limit: number): Promise<StoredEvent[]>;
  /**
   * The last event of a stream, without reading the others; null if it has none. `types`: the last
   * one of these.
   */
  lastEvent(stream: string, types?: readonly string[]): Promise<StoredEvent | null>;
  /** Like `readStream`, over the whole log. */
  readAll(fromSeq: number, limit: number): Promise<StoredEvent[]>;
  /**
   * Newest first, in log order. Fewer than `limit` runs if they are large; none at the end, or if
   * `before` is unknown.
   * A damaged run is marked.
   */
  listRuns(query: RunQuery): Promise<(RunRow | DamagedRun)[]>;
  /** `answer`: without the long lists of its input. */
  getRun(run_id: string, only?: 'answer'): Promise<RunRow | null>;
  /** Ids that begin with this text, in the order of ids. `asked_by` as in a list. */
  runsNamed(prefix: string, limit: number, asked_by?: string): Promise<string[]>;
  /**
   * The newest run; with an origin, the newest one from there. `asked_by`: the newest one that was
   * started with the token of this name, or by the home (null).
   */
  lastRun(origin: string | null, asked_by?: string | null): Promise<string | null>;
  /** The name of the token that started a run. Null: the home did, or the run is unknown. */
  askerOf(run_id: string): Promise<string | null>;
  /**
   * The record of a finished run as JSON bytes, never parsed. Null if the run is unfinished or
   * unknown.
   */
  readRecord(run_id: string): Promise<Uint8Array | null>;
  /** The head of a run, without reading its texts. */
  runHead(run_id: string): Promise<RunHead | null>;
  /** By the id of its first run, or the name that a program has of it. */
  conversationUsage(conversation: string): Promise<ConversationSums>;
  /** The run that has this key. */
  getRunByKey(idempotency_key: string): Promise<RunRow | null>;
  /** Ids of the runs without a terminal event, oldest first. With a state: only those in it. */
  unfinishedRuns(state?: string): Promise<string[]>;
  /**
   * Ids of the runs that were open at an event, oldest first: accepted at or before it, and not
   * ended before it.
   */
  runsAt(seq: number, limit: number): Promise<string[]>;
  /**
   * Where runs begin and end in a boot: after one position, up to another, in log order. It looks
   * at each event between them.
   */
  runBounds(boot_id: string, after: number, to: number): Promise<RunBound[]>;
  /** Streams of other machines that begin in this part of the log, in its order. */
  startedStreams(from_seq: number, to_seq: number, limit: number): Promise<string[]>;
  /** Finished runs with these words, newest first. */
  searchRuns(query: SearchQuery): Promise<(FoundRun | DamagedRun)[]>;
  countRuns(): Promise<{ finished: number; unfinished: number }>;
  /** The usage of runs, also of those that were removed since. */
  usage(query: UsageQuery): Promise<UsageSums>;
}

/** The result of a read whose data are still JSON text: events, rows of runs, or neither. */
export const READS = {
  readStream: 'events',
  lastEvent: 'event',
  readAll: 'events',
  listRuns: 'runs',
  getRun: 'run',
  runsNamed: 'same',
  lastRun: 'same',
  askerOf: 'same',
  readRecord: 'same',
  runHead: 'same',
  conversationUsage: 'same',
  getRunByKey: 'run',
  unfinishedRuns: 'same',
  runsAt: 'same',
  runBounds: 'same',
  startedStreams: 'same',
  searchRuns: 'same',
  countRuns: 'same',
  usage: 'same',
} as const satisfies Record<keyof LogReads, string>;

/** All reads, each of them answered by `answer`. */
export function toReads(
  answer: (method: keyof LogReads, args: never) => Promise<unknown>,
): LogReads {
  const methods = Object.keys(READS) as (keyof LogReads)[];
  return Object.fromEntries(
    methods.map((method) => [method, (...args: unknown[]) => answer(method, args as never)]),
  ) as unknown as LogReads;
}

export interface EventStore extends LogReads {
  /**
   * Takes exclusive ownership.
   * Throws daemon_already_running, store_foreign, store_corrupt, store_tail_lost, home_unusable.
   */
  open(): Promise<OpenReport>;
  /**
   * Resolves only when the commit is durable. `full`: the disk is full, and the reserve was used.
   * `first_seq`: the position of its first event. A shared log assigns it; the others follow it.
   * store_conflict and store_full change nothing. After any other error the outcome is unknown.
   */
  append(commit: Commit): Promise<AppendResult>;
  /** Creates the reserve again if it was used. True if it is there. */
  reserve(): Promise<boolean>;
  /** Deletes the reserve, for other writes on a full disk. False if there was no reserve. */
  spendReserve(): Promise<boolean>;
  /** About how many finished runs a search does not find yet. Absent: it finds all. */
  unindexedRuns?(): Promise<number>;
  /**
   * One small step of removing history; see `pruner.ts`. Throws store_full, and then nothing has
   * changed.
   */
  prune(query: PruneQuery): Promise<PruneReport>;
  /**
   * Removes one finished run, as `prune` does, and the title of the conversation that it began.
   * `runs` is 0 for a run that is unfinished or unknown, or has the last event of the log. With
   * `more`, steps of `prune` finish the work. Throws store_full, and then nothing has changed.
   */
  removeRun(run_id: string): Promise<PruneReport>;
  /** Reads and checks everything: hashes, numbering, and the check of SQLite itself. */
  verify(): Promise<VerifyReport>;
  /**
   * One small part of a check that circles the whole log. `restart` begins again; `done` ends a
   * round.
   * Rebuilds damaged rows from their events.
   */
  verifyPart(now: number, restart: boolean): Promise<{ done: boolean; report: VerifiedReport }>;
  /** The findings of that check. */
  verified(): Promise<VerifiedReport>;
  /** Waits for earlier calls. Afterwards only `open` works; other calls throw store_failed. */
  close(): Promise<void>;
}

/** Folds the row of a run from its events; null if they are damaged or removed. */
export type Project = (
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
) => Promise<RunRow | null>;

/**
 * Code of a commit that does not continue the log, or cannot be stored: a bug of the writer.
 * Nothing was changed.
 */
export const CONFLICT = 'store_conflict';

/** The event from its stored form. */
export function toEvent(stored: StoredEvent): AnyEvent {
  return { ...stored.data, type: stored.type, at: stored.at } as AnyEvent;
}
