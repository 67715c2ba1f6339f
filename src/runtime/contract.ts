import type { StopReport } from '../../machines/events.ts';
import type { AskedAs, RunRequest } from '../../machines/messages.ts';
import type { EventRecord, EventSlice } from '../kernel/event-pages.ts';
import type { Notifier } from '../kernel/notifier.ts';
import type { FoundModel, PullInput } from '../models/port.ts';
import type { Embedding, ModelRecord, PartialModel } from '../providers/port.ts';
import type { StoredEvent } from '../store/port.ts';
import type { MachinesRecord, RunWhyRecord, StateSnapshot } from './contract/history.ts';
import type {
  EmbedInput,
  LifecycleInput,
  LoadInput,
  ProviderInput,
  RunInput,
  RunListQuery,
} from './contract/inputs.ts';
import type { LoadedModelRecord, LoadedRecord } from './contract/loaded-models.ts';
import type {
  HealthRecord,
  LifecycleResult,
  ProviderRecord,
  ReportRecord,
  RunPage,
  StatusRecord,
} from './contract/records.ts';
import type { UsageInput, UsageRecord } from './contract/usage.ts';
import type { Family } from './metrics/tally.ts';
import type { PullRecord } from './pulls/record.ts';
import type { RunRecord } from './runs/record.ts';
import type { RecordBytes } from './runs/record-bytes.ts';

export type { EventPage, EventRecord, EventSlice } from '../kernel/event-pages.ts';
export type { StoredEvent } from '../store/port.ts';
export type * from './contract/history.ts';
export type {
  EmbedInput,
  LifecycleInput,
  LoadInput,
  ProviderInput,
  RunInput,
  RunListQuery,
} from './contract/inputs.ts';
export type * from './contract/loaded-models.ts';
export type * from './contract/records.ts';
export type { RunRecord } from './runs/record.ts';

/**
 * What transports can ask the runtime. The schemas of inputs and records are in the folder
 * `contract`.
 */

/** Who asked, and through which API. */
export interface Asked {
  /** Name of the token of the request. Absent: the token of the home. */
  asked_by?: string;
  asked_as?: AskedAs;
  /** Names the span of the client, in the form of the W3C. */
  traceparent?: string;
  /** The client waits no longer than so many milliseconds: a bound on the time of the run. */
  within_ms?: number;
}

/** What a run was asked, with its images. The record has their size only. */
export interface RunAsked {
  request: RunRequest;
  asked_as: AskedAs | null;
  metadata: Readonly<Record<string, string>> | null;
  /** Milliseconds since the epoch. */
  created_at: number;
}

/** What is known of a run without its texts. */
export interface RunHead {
  finished: boolean;
  /** Position of its last event in the log. */
  seq: number;
}

/** The vectors of texts, and who computed them. */
export interface EmbeddingRecord extends Embedding {
  provider: string;
  model: string;
}

export interface Probe {
  live: boolean;
  ready: boolean;
}

export interface ModelDetails extends ModelRecord {
  metadata: Record<string, unknown>;
  metadata_left_out: number;
  architecture?: string | null;
  /** The kind of its chat template. */
  template?: string | null;
  licence?: string | null;
  /** An estimate of the memory that it needs, with the present limits. */
  memory_bytes?: number | null;
  /** Where svc has it from. */
  origin?: { reference: string; revision: string | null; sha256: string; at: string } | null;
}

export interface LogQuery {
  /** The first position. Without it, only new events. */
  from_seq?: number;
  follow: boolean;
  /** A name, or the beginning of one with `*` after it. */
  stream?: string;
  type?: string;
}

/** Every method may throw SvcError. Any other error is a defect. */
/** Each means a model, or several targets in their order. */
export type Aliases = Readonly<Record<string, string | readonly string[]>>;

export interface Runtime extends History {
  /** The three health reads use memory only: no lock, no I/O, no provider. */
  probe(): Probe;
  health(): HealthRecord;
  report(): ReportRecord;
  status(): StatusRecord;
  /** The figures for monitoring, in the text format of Prometheus, with those of a transport. */
  metrics(more: readonly Family[]): Promise<string>;
  /** Changes of the daemon's state. */
  readonly stateChanges: Pick<Notifier, 'subscribe' | 'next'>;
  /** The events of this boot's daemon stream that are still in memory, oldest first. */
  why(): EventRecord[];

  /** Resolves when the run is durable. */
  startRun(input: RunInput, client: string, asked?: Asked): Promise<RunRecord>;
  /**
   * The tokens of the prompt that this request would send. Starts no run. Throws the errors of
   * a route, and capability_missing if the provider cannot count.
   */
  countTokens(input: RunInput, signal: AbortSignal): Promise<number>;
  getRun(id: string): Promise<RunRecord>;
  /** The record for a client. A finished run comes as JSON bytes that clients share. */
  showRun(id: string): Promise<RunRecord | RecordBytes>;
  /** Cheap, however large the run is. */
  headOfRun(id: string): Promise<RunHead>;
  listRuns(query: RunListQuery): Promise<RunPage>;
  /** What runs used, and what is left of the budget. */
  usage(query: UsageInput): Promise<UsageRecord>;
  /**
   * The run's events from `from_seq` to its terminal event. Ends early if the signal aborts or the
   * daemon closes.
   */
  followRun(
    id: string,
    options: { from_seq?: number; signal: AbortSignal },
  ): AsyncIterable<EventSlice>;
  /**
   * Calls the listener with the run's position in the queue, now and at each change. Position 1
   * starts next. The last position is null: the run left the queue.
   */
  watchQueue(id: string, listener: (position: number | null) => void, signal: AbortSignal): void;
  /** Resolves when the work has stopped. A finished run resolves at once. */
  cancelRun(id: string, by: string): Promise<RunRecord>;
  /** What the run was asked. Without messages if the log does not keep them. */
  askedOf(id: string): Promise<RunAsked>;
  /** Removes a finished run and its events from the log. Throws run_unknown, run_unfinished. */
  removeRun(id: string): Promise<void>;

  /**
   * The vectors of texts. It is no run: nothing of it is recorded. An abort stops the work. Throws
   * busy, not_ready, daemon_stopping, capability_missing, timed_out, and what `startRun` throws for
   * its model and what its provider throws.
   */
  embed(input: EmbedInput, signal: AbortSignal): Promise<EmbeddingRecord>;

  /**
   * Proposes a lifecycle event, such as stop_requested. Throws event_refused with details {state,
   * accepted}.
   */
  lifecycle(event: LifecycleInput, by: string): Promise<LifecycleResult>;
  /** Resolves when the daemon has stopped, with what happened to its runs. Null when it failed. */
  stopped(): Promise<StopReport | null>;

  listModels(): Promise<ModelRecord[]>;
  /** Other names of models. One may lead to several targets. */
  aliases(): Aliases;
  showModel(id: string): Promise<ModelDetails>;
  removeModel(id: string): Promise<ModelRecord>;
  /** The models folder, and what downloads left in it. */
  modelsPlace(): Promise<{ folder: string; partial: PartialModel[] }>;
  /** Puts a file into the models folder. */
  importModel(
    input: { path: string; name?: string | null },
    signal: AbortSignal,
  ): Promise<ModelRecord>;
  /** Makes it the default model of the local engine. */
  useModel(id: string): Promise<ModelRecord>;
  /** Null removes the alias. */
  setAlias(name: string, model: string | null): Promise<{ aliases: Aliases }>;
  /** Local models in memory, from memory alone. */
  loadedModels(): LoadedRecord;
  /**
   * Resolves when the model is in memory. Throws the errors of a run's model, such as
   * model_too_large. An abort of the last one that waits stops the load.
   */
  loadModel(input: LoadInput, signal: AbortSignal): Promise<LoadedModelRecord>;
  /** Resolves when the model is not in memory. Throws model_in_use. */
  unloadModel(model: string): Promise<{ unloaded: string }>;
  /** How long the model stays in memory after its last work. */
  keepModel(model: string, keep_alive_ms: number): Promise<void>;
  /** Asks the hub for models with these words. */
  searchHub(words: string, signal: AbortSignal): Promise<FoundModel[]>;
  /**
   * Downloads a model: its record now and at each change. The last one has the model. It is
   * cancelled when its last client leaves.
   */
  pullModel(
    input: PullInput,
    options: { client: string; signal: AbortSignal },
  ): AsyncIterable<PullRecord>;
  /**
   * Resolves when the work has stopped. `cancelled` is false when the pull continues for other
   * clients.
   */
  cancelPull(id: string, by: string): Promise<{ cancelled: boolean }>;
  listProviders(): ProviderRecord[];
  addProvider(input: ProviderInput): Promise<ProviderRecord>;
  /** Changes the given settings. Requests in progress end with the old ones. */
  setProvider(input: ProviderInput): Promise<ProviderRecord>;
  /** Makes it the provider of runs that name none. */
  useProvider(id: string): Promise<ProviderRecord>;
  removeProvider(id: string): Promise<ProviderRecord>;
  /** Probes the provider and waits for the outcome. */
  /** The stored key of the provider changed. */
  rereadKey(id: string): Promise<ProviderRecord>;
  testProvider(id: string): Promise<ProviderRecord>;
}

/** What transports can ask about the machines and about earlier positions of the log. */
export interface History {
  machines(): MachinesRecord;
  /** Throws invalid_request (`at`) for a position that the log does not have. */
  snapshot(query: { at?: number }): Promise<StateSnapshot>;
  /** The record of a run at a position. Throws run_unknown, invalid_request (`at`). */
  runAt(id: string, at: number): Promise<RunRecord>;
  whyRun(id: string): Promise<RunWhyRecord>;
  /**
   * The pieces of a file that another machine can fold. Throws run_unknown before the first piece.
   */
  exportRun(id: string, options: { redact: boolean }): AsyncIterable<string>;
  /**
   * The events of the whole log. Ends early if the signal aborts or the daemon closes. Throws busy,
   * not_ready.
   */
  followLog(query: LogQuery, signal: AbortSignal): AsyncIterable<EventSlice>;
  /**
   * Stored events of one stream. A page is shorter than `limit` when its events are large, and
   * empty after the end.
   */
  readStream(stream: string, fromVersion: number, limit: number): Promise<StoredEvent[]>;
  /** The same of all streams. */
  readLog(fromSeq: number, limit: number): Promise<StoredEvent[]>;
}
