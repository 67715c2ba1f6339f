import type { Target } from './failover.ts';
import type { AskedAs, Message, RunOutput, RunRequest } from './messages.ts';

/**
 * Every event that the daemon records: one vocabulary for the log and for the machines.
 *
 * An event is named in the past tense and has a time, `at`, in milliseconds since the epoch.
 * The log stores these objects as they are, and the state of a machine is the fold of them.
 * The first event of a stream creates its machine. Each later event is a transition.
 * A field that older logs lack is optional.
 */

export type EventOf<T extends string, D = unknown> = {
  readonly type: T;
  readonly at: number;
} & Readonly<D>;

/** Increases when the shape of an event changes. `upcast.ts` converts older shapes. */
export const SCHEMA_VERSION = 2;

export interface Addresses {
  http: string | null;
  grpc: string | null;
  socket: string | null;
}

/** How an earlier boot ended, according to its log. */
export type Ending = 'clean' | 'failed' | 'killed' | 'power_lost' | 'lease_lost';

export interface LastBoot {
  boot_id: string;
  ending: Ending;
  /** Time of its last recorded event. */
  at: number;
  unfinished_runs: number;
}

/** How the runs ended while the daemon stopped. */
export interface StopReport {
  /** Runs that ended by themselves. */
  finished: number;
  /** Runs that the next boot continues. */
  handed_over: number;
  /** Runs that could not continue, and ended as interrupted. */
  ended: number;
}

/** An error as an event records it: a code of the error table, and a message for the user. */
export interface Failure {
  code: string;
  message: string;
  retryable: boolean;
  /** The field of the request that is the cause, such as `messages.0.content.1`. */
  param?: string;
  /** How long after this event the provider may be asked again. */
  retry_after_ms?: number;
  /** HTTP status of the provider's response, where the answer to a client keeps it. */
  status?: number;
  /** What to do about a failed pull, if it is not what the table of errors says. */
  hint?: string;
}

// ---------------------------------------------------------------- daemon

export type DaemonCreated = EventOf<
  'daemon.boot_started',
  {
    boot_id: string;
    /** Identifies the boot of the operating system: a power cut changes it, a kill does not. */
    host_boot_id: string | null;
    pid: number;
    version: string;
    /** How many runs may be queued or active at one time. */
    capacity: number;
    start_deadline_at: number;
  }
>;

export type DaemonEvent =
  | EventOf<'daemon.listening', { addresses: Addresses }>
  /** `start_deadline_at`: the deadline by the clock of the database, where that gives the time. */
  | EventOf<'daemon.store_opened', { last_boot: LastBoot | null; start_deadline_at?: number }>
  /** `suspended`: runs that continue. */
  | EventOf<'daemon.runs_recovered', { queued: number; suspended?: number; ended: number }>
  /** How many unfinished runs are recovered so far. More follow. */
  | EventOf<'daemon.recovery_progressed', { runs: number }>
  | EventOf<'daemon.providers_probed'>
  | EventOf<'daemon.run_admitted', { run_id: string }>
  | EventOf<'daemon.run_settled', { run_id: string }>
  /** The disk is full. Accepted runs are recorded in the reserve; new ones are refused. */
  | EventOf<'daemon.store_filled'>
  | EventOf<'daemon.store_freed'>
  /** A commit is late because the disk does not answer. New runs are refused. */
  | EventOf<'daemon.disk_stalled'>
  | EventOf<'daemon.disk_resumed'>
  /** Finished runs were removed by the retention policy. */
  | EventOf<'daemon.history_pruned', { runs: number; events: number }>
  | EventOf<
      'daemon.stop_requested',
      { by: string; mode: 'drain' | 'force'; drain_deadline_at: number; close_deadline_at: number }
    >
  | EventOf<'daemon.start_deadline_passed'>
  | EventOf<'daemon.drain_deadline_passed'>
  | EventOf<'daemon.close_deadline_passed'>
  | EventOf<'daemon.stopped', Partial<StopReport>>
  | EventOf<'daemon.failed', { error: Failure }>;

// ---------------------------------------------------------------- run

export interface Usage {
  input_tokens: number | null;
  output_tokens: number | null;
  /** Input tokens that the provider had in its cache. */
  cached_tokens?: number;
  /** Input tokens that it wrote into its cache. */
  cache_write_tokens?: number;
  /** Output tokens of the reasoning. */
  reasoning_tokens?: number;
}

export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls' | 'other';

/**
 * What happens to a run that loses its work, because the daemon or the engine died or stopped.
 * `resume`: it continues after its last recorded token if its provider can. Without output it
 * starts again, otherwise it ends. `restart`: it starts again, and its output is discarded. `end`:
 * it ends, and keeps its output.
 */
export type Recovery = 'resume' | 'restart' | 'end';

export type RunCreated = EventOf<
  'run.accepted',
  {
    run_id: string;
    /** Its provider, model and cloud are the first target. */
    request: RunRequest;
    /** The targets after the first one, in their order. */
    fallbacks?: readonly Target[];
    idempotency_key: string | null;
    /** SHA-256 of the request, so a key cannot be reused for another request. */
    request_digest?: string | null;
    /** The client, for the fair queue. */
    client: string;
    /** Name of the token that the request was sent with. Absent: the token of the home. */
    asked_by?: string;
    /** Names the span of the client that asked, in the form of the W3C. */
    traceparent?: string;
    /** How an application asked: what its API needs to describe the run later. */
    asked_as?: AskedAs;
    /** The client's own labels. */
    metadata?: Readonly<Record<string, string>>;
    /** The first run of its conversation. Absent: it is the first one itself. */
    conversation?: string;
    /** The run whose answer it follows. Its messages begin with those of that run. */
    continues?: string;
    /** Names of the other tokens that asked turns whose texts it repeats. */
    turns_of?: readonly string[];
    /** Where the client was, such as a folder. */
    origin?: string;
    recovery?: Recovery;
    /** Its provider can continue from recorded tokens. */
    resumable?: boolean;
    /** `omitted`: the log lacks the prompt, so only the current process can answer it. */
    content?: 'omitted';
    max_attempts: number;
    /**
     * Attempts at a target that another one follows. Logs without it are older than
     * `run.sent_to_cloud`.
     */
    target_attempts?: number;
    /** How often the run may lose its work without new text in between. */
    max_losses?: number;
    queue_deadline_at: number;
    deadline_at: number;
    /** Longest wait for the first output of an attempt, including the load of the model. */
    first_output_ms: number;
    /** Longest silence between two outputs. */
    idle_ms: number;
    /** Longest wait for the work to stop after a cancel. */
    cancel_grace_ms: number;
  }
>;

export type DeadlineName = 'queue' | 'total' | 'first_output' | 'idle';

export type RunEvent =
  /** `resumes`: it continues after the recorded output. Otherwise that output is discarded. */
  | EventOf<'run.started', { attempt: number; resumes?: boolean }>
  | EventOf<'run.output_appended', RunOutput>
  /**
   * `stop_sequence`: the text of `stop` that ended the answer. `load_ms`: how long the attempt
   * waited for its model to be in memory. Absent: it was there, or is not on this machine.
   */
  | EventOf<
      'run.completed',
      {
        attempt: number;
        finish_reason: FinishReason;
        usage: Usage;
        stop_sequence?: string;
        load_ms?: number;
      }
    >
  /** `next`: the run goes on to this target. Otherwise it retries the present one. */
  | EventOf<
      'run.attempt_failed',
      { attempt: number; error: Failure; retry_at: number; next?: Target }
    >
  /** The prompt leaves this machine. It is recorded before the first byte leaves. */
  | EventOf<
      'run.sent_to_cloud',
      { attempt: number; provider: string; model: string; bytes: number }
    >
  | EventOf<'run.failed', { attempt: number; error: Failure }>
  /**
   * The work was lost or stopped before the answer was complete, and the run waits to resume.
   * `computing`: how many runs the engine computed when it died, including this one. 0: it computed
   * none of them, as while it loads, or was stopped for another reason. Absent: no engine died, or
   * the log is old.
   */
  | EventOf<'run.suspended', { attempt: number; error: Failure; computing?: number }>
  /** Found unfinished by a later boot. The time between the boots counts for no deadline. */
  | EventOf<'run.recovered', { downtime_ms: number }>
  | EventOf<'run.cancel_requested', { by: string }>
  | EventOf<'run.deadline_passed', { deadline: DeadlineName; error?: Failure }>
  | EventOf<'run.interrupt_requested', { reason: string }>
  | EventOf<'run.cancelled', { forced: boolean }>
  | EventOf<'run.timed_out', { forced: boolean }>
  | EventOf<'run.interrupted', { error: Failure }>;

const TERMINAL = [
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timed_out',
  'run.interrupted',
] as const satisfies RunEvent['type'][];
const ENDS: ReadonlySet<string> = new Set(TERMINAL);

/** Whether an event of this type ends a run. */
export function isTerminalEvent(type: string): boolean {
  return ENDS.has(type);
}

// ---------------------------------------------------------------- provider

export type ProviderCreated = EventOf<
  'provider.configured',
  {
    provider_id: string;
    kind: 'local' | 'cloud';
    adapter: string;
    base_url: string | null;
    /** Failed probes in a row after which a provider that worked is unavailable. */
    failure_limit: number;
    /** Milliseconds between probes; null if the provider is probed only on request. */
    probe_every_ms: number | null;
    probe_timeout_ms: number;
  }
>;

export interface ProviderFault {
  error: Failure;
  unauthorised: boolean;
  /** The model that failed. Absent: it is a fault of the whole provider. */
  model?: string;
  /** The run or embedding that failed. Its attempts count once. */
  request?: string;
  /** It refuses the request because there were too many. */
  limited?: boolean;
  /** If this opens the circuit: when a request may try the provider again. */
  retry_at?: number;
}

/** A request for embeddings at a cloud provider. Its texts are not recorded. */
export interface EmbeddingSent {
  request: string;
  provider: string;
  model: string;
  /** How many texts, and their UTF-8 size together. */
  texts: number;
  bytes: number;
  /** By the size of the texts. */
  estimated_tokens: number;
  client: string;
  /** Name of the token that the request was sent with. Absent: the token of the home. */
  asked_by?: string;
}

export interface EmbeddingCounted extends Omit<EmbeddingSent, 'texts' | 'bytes'> {
  /** When it was sent. */
  sent_at: number;
  input_tokens: number;
}

export type ProviderEvent =
  | EventOf<'provider.probe_started', { probe: number }>
  /** `asked`: a user asked for the probe, so every model may be asked again. */
  | EventOf<'provider.probe_succeeded', { probe: number; models: string[] | null; asked?: true }>
  | EventOf<'provider.probe_failed', { probe: number } & ProviderFault>
  | EventOf<'provider.answered', { model?: string }>
  | EventOf<'provider.faulted', ProviderFault>
  /** The time of an open circuit has come: one request may try the provider. */
  | EventOf<'provider.wait_ended'>
  /**
   * `trial`: the request that tries it. The outcome is awaited until a time. `model`: only this
   * model is tried.
   */
  | EventOf<'provider.trial_started', { trial: string; until: number; model?: string }>
  /** The trial ended without an outcome, such as by a cancel. */
  | EventOf<'provider.trial_abandoned', { trial: string; model?: string }>
  /** Texts leave this machine for their vectors. It is recorded before the first byte leaves. */
  | EventOf<'provider.embedding_sent', EmbeddingSent>
  /** The provider says how many tokens that request had. This replaces the estimate. */
  | EventOf<'provider.embedding_counted', EmbeddingCounted>
  | EventOf<'provider.key_changed'>
  | EventOf<'provider.removed'>;

// ---------------------------------------------------------------- engine

export interface EngineInfo {
  pid: number;
  model: string;
  path: string;
  threads: number;
  context_length: number;
  parallel: number;
  load_ms: number;
  chat_template: string;
  /** Runs that need not be exact are computed in one batch. Old logs do not say it. */
  batching?: boolean;
  /** What computes, and how many layers are on a GPU. Old logs do not say it. */
  gpu?: string;
  gpu_layers?: number;
}

export type EngineCreated = EventOf<
  'engine.created',
  {
    /** Counts the engines of this boot. Old logs have one engine, without a number. */
    number?: number;
    start_ms: number;
    load_ms: number;
    stop_ms: number;
    kill_ms: number;
    idle_ms: number;
  }
>;

export type EngineEvent =
  /**
   * `threads`: the number that computed the recorded output of a resumed run. `idle_ms`: how long
   * this model stays in memory without work. `context_tokens`: a run needs a larger context than
   * usual.
   */
  | EventOf<
      'engine.load_requested',
      {
        attempt: number;
        model: string;
        path: string;
        threads?: number;
        idle_ms?: number;
        context_tokens?: number;
      }
    >
  | EventOf<'engine.process_started', { attempt: number; pid: number }>
  | EventOf<'engine.model_loaded', { attempt: number; info: EngineInfo }>
  | EventOf<'engine.load_failed', { attempt: number; error: Failure }>
  | EventOf<'engine.work_started'>
  /** `idle_ms`: how long the model stays in memory from now on. */
  | EventOf<'engine.work_finished', { idle_ms?: number }>
  | EventOf<
      'engine.stop_requested',
      /** `room`: another model needs its memory. `model_changed`: other threads are needed. */
      { reason: 'idle' | 'room' | 'model_changed' | 'daemon_stopping' | 'requested' }
    >
  | EventOf<'engine.deadline_passed', { attempt: number }>
  /** `reason`: why the daemon killed the process; or `outside`, if something else did. */
  | EventOf<
      'engine.exited',
      {
        attempt: number;
        exit_code: number | null;
        signal: string | null;
        reason?: 'memory' | 'outside';
      }
    >
  | EventOf<'engine.backoff_elapsed'>;

// ---------------------------------------------------------------- pull

export type PullCreated = EventOf<
  'pull.requested',
  {
    pull_id: string;
    /** The reference in the request, without its query string. */
    reference: string;
    client: string;
    /** How many attempts in a row may fail without further progress. */
    failure_limit: number;
    /** Longest silence of the hub, and of the disk. */
    idle_ms: number;
    cancel_grace_ms: number;
  }
>;

export interface PullSource {
  /** Without its query string. */
  url: string;
  /** Name of the file in the models folder. */
  file: string;
  size_bytes: number | null;
  /** The expected hash of the file; null if the hub has none. */
  sha256: string | null;
  etag: string | null;
  /** Commit of the repository, if there is one. */
  revision: string | null;
  /** The other candidates, if one file of several was chosen. */
  choices: string[];
}

export type PullEvent =
  | EventOf<'pull.started', { attempt: number }>
  /** `offset_bytes` are already on disk. */
  | EventOf<'pull.resolved', { attempt: number; offset_bytes: number } & PullSource>
  | EventOf<'pull.progressed', { attempt: number; bytes: number }>
  /** All bytes are on disk. `existing`: a model of this name existed before. */
  | EventOf<'pull.downloaded', { attempt: number; bytes: number; existing: boolean }>
  | EventOf<'pull.hashed', { attempt: number; bytes: number }>
  /** `compared`: the hub has a hash, and it matches. */
  | EventOf<'pull.verified', { attempt: number; sha256: string; compared: boolean }>
  | EventOf<'pull.completed', { attempt: number; path: string }>
  | EventOf<'pull.attempt_failed', { attempt: number; error: Failure; retry_at: number }>
  | EventOf<'pull.failed', { attempt: number; error: Failure }>
  | EventOf<'pull.cancel_requested', { by: string }>
  | EventOf<'pull.cancelled', { forced: boolean }>;

// ---------------------------------------------------------------- lease

export type LeaseCreated = EventOf<
  'lease.requested',
  { node_id: string; boot_id: string; host: string }
>;

export type LeaseEvent =
  /** `previous_boot_id`: the boot that had this node id before. */
  | EventOf<'lease.granted', { epoch: number; lease_ms: number; previous_boot_id: string | null }>
  /** The first renewal that failed after one that did not. */
  | EventOf<'lease.renewal_failed', { error: Failure }>
  | EventOf<'lease.renewed'>
  | EventOf<'lease.leave_requested', { leave_deadline_at: number }>
  /** `forced`: the work did not end in time. */
  | EventOf<'lease.left', { forced: boolean }>
  /** Recorded by another boot: `by` is its node. */
  | EventOf<'lease.lost', { epoch: number; by: string }>;

// ---------------------------------------------------------------- conversation

export type ConversationCreated = EventOf<
  'conversation.created',
  {
    conversation_id: string;
    metadata: Readonly<Record<string, string>>;
    messages: readonly Message[];
    /** Name of the token that the request was sent with. Absent: the token of the home. */
    asked_by?: string;
  }
>;

export type ConversationEvent =
  | EventOf<'conversation.items_added', { messages: readonly Message[] }>
  /** Recorded with the acceptance of the run. `place`: how many entries come before it. */
  | EventOf<'conversation.run_added', { run_id: string; place: number }>
  /** `item`: the id of an item that a program added, or of one of a run. */
  | EventOf<'conversation.item_removed', { item: string }>
  | EventOf<'conversation.described', { metadata: Readonly<Record<string, string>> }>
  | EventOf<'conversation.deleted'>;

export type CreationEvent =
  | DaemonCreated
  | RunCreated
  | ProviderCreated
  | EngineCreated
  | PullCreated
  | LeaseCreated
  | ConversationCreated;
export type MachineEvent =
  | DaemonEvent
  | RunEvent
  | ProviderEvent
  | EngineEvent
  | PullEvent
  | LeaseEvent
  | ConversationEvent;
export type AnyEvent = CreationEvent | MachineEvent;

/** An event without its time. The kernel adds the time when the event is appended. */
export type NewEvent<F> = F extends { at: number } ? Omit<F, 'at'> : never;

/** An event that is appended at a time, unless the state changes first. It is never stored. */
export interface Deadline<E extends MachineEvent = MachineEvent> {
  at: number;
  event: NewEvent<E>;
}
