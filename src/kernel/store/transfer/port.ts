import type { EmbeddingUsage } from '../embedding-usage.ts';
import type { RunRow } from '../port.ts';
import type { EventRow } from '../row.ts';
import type { LATER } from '../usage.ts';

/**
 * The ports of a log that moves as a whole: from one store, through a file, into another one.
 * Events keep their exact text and their positions.
 */

/** Reads a log as it was when it was opened. Nothing changes it meanwhile. */
export interface LogSource {
  readonly head: LogHead;
  /** The next events from a position on, each checked; none at the end. Throws store_corrupt. */
  page(from_seq: number): Promise<EventRow[]>;
  /** The texts with these digests. Throws store_corrupt. */
  texts(digests: readonly string[]): Promise<string[]>;
  /** The record of a run that ended with this event; else null. */
  record(run_id: string, seq: number): Promise<RunRow['record']>;
  usage(): AsyncIterable<UsageRow[]>;
  embeddings(): AsyncIterable<EmbeddingUsage[]>;
  close(): Promise<void>;
}

export interface LogHead {
  store: 'sqlite' | 'postgres';
  /** The random name of the log. */
  log_id: string | null;
  events: number;
  last_seq: number;
  has_texts: boolean;
  /** Daemons that write this log now. Their new events are not read. */
  writers: number;
}

/** Null and absent: 0. Older versions ignore them. */
type Beside = { [N in (typeof LATER)[number]]?: number | null };

/** The usage of the runs of one hour at one model, for one client. Removed runs stay counted. */
export interface UsageRow extends Beside {
  hour: number;
  provider: string;
  model: string;
  client: string;
  cloud: boolean;
  runs: number;
  input_tokens: number;
  output_tokens: number;
  estimated: number;
}

/**
 * Writes a log into an empty store, in a transaction for each part.
 *
 * 1. Nothing is visible before `finish` resolves. Without it, and after a kill, the store is empty.
 * 2. No daemon opens the store meanwhile.
 */
export interface LogTarget {
  /** Texts that later events need, each after those that it refers to itself. */
  texts(texts: readonly string[]): Promise<void>;
  /** Data of an event with its texts, which the target has. Throws store_corrupt. */
  expand(data: string): Promise<string>;
  /** Events that follow the ones before without a gap, and rows of runs. They count no usage. */
  append(events: readonly EventRow[], runs: readonly RunRow[]): Promise<void>;
  /** The positions up to this one were removed from the history. */
  skip(to_seq: number): Promise<void>;
  usage(rows: readonly UsageRow[]): Promise<void>;
  embeddings(rows: readonly EmbeddingUsage[]): Promise<void>;
  finish(): Promise<void>;
  /** Without `finish`, nothing has changed. */
  close(): Promise<void>;
}
