/**
 * Every fact the daemon records: one vocabulary for the log and for the machines. A field that older logs do not have is optional.
 *
 * A fact is past tense, carries `at` (milliseconds since the epoch) and is versioned by `schema`.
 * The log stores exactly these objects; a machine's state is the fold of them. The first fact of a
 * stream creates its machine, each later one is a transition of it.
 */

export type EventOf<T extends string, D = unknown> = {
  readonly type: T;
  readonly at: number;
} & Readonly<D>;

/** Raised when a fact's shape changes; older shapes are brought forward before they are folded. */
export const SCHEMA_VERSION = 1;

export interface Addresses {
  http: string | null;
  grpc: string | null;
  socket: string | null;
}

/** How an earlier life of the daemon ended, as its log tells. */
export type Ending = 'clean' | 'failed' | 'killed' | 'power_lost';

export interface LastBoot {
  boot_id: string;
  ending: Ending;
  /** Time of its last recorded fact. */
  at: number;
  unfinished_runs: number;
}

/** What became of the runs while the daemon stopped. */
export interface StopReport {
  /** Reached their own end. */
  finished: number;
  /** Are taken up again at the next start. */
  handed_over: number;
  /** Could not be handed over, and ended as interrupted. */
  ended: number;
}

/** What went wrong, as a code of the error table; `message` is written for the user. */
export interface Failure {
  code: string;
  message: string;
  retryable: boolean;
}

// ---------------------------------------------------------------- daemon

export type DaemonCreated = EventOf<
  'daemon.boot_started',
  {
    boot_id: string;
    /** Identifies the life of the operating system, so that a power cut can be told from a kill. */
    host_boot_id: string | null;
    pid: number;
    version: string;
    /** Runs that may be unsettled (queued or active) at one time. */
    capacity: number;
    start_deadline_at: number;
  }
>;

export type DaemonEvent =
  | EventOf<'daemon.listening', { addresses: Addresses }>
  | EventOf<'daemon.store_opened', { last_boot: LastBoot | null }>
  /** `suspended`: runs that are taken up again. */
  | EventOf<'daemon.runs_recovered', { queued: number; suspended?: number; ended: number }>
  /** So many unfinished runs are read and recovered so far; there are more. */
  | EventOf<'daemon.recovery_progressed', { runs: number }>
  | EventOf<'daemon.providers_probed'>
  | EventOf<'daemon.run_admitted', { run_id: string }>
  | EventOf<'daemon.run_settled', { run_id: string }>
  /** The disk is full: what was accepted is recorded from the reserve, nothing new is taken. */
  | EventOf<'daemon.store_filled'>
  | EventOf<'daemon.store_freed'>
  /** A commit is late: the disk does not answer, and nothing new is taken. */
  | EventOf<'daemon.disk_stalled'>
  | EventOf<'daemon.disk_resumed'>
  /** Finished runs were removed, as the retention says. */
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
}

export type FinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls' | 'other';

export interface RunRequest {
  provider: string;
  model: string;
  /** True when the prompt leaves this machine. */
  cloud: boolean;
  prompt: string;
  system: string | null;
  max_tokens: number | null;
  temperature: number | null;
  /** Every run has one, so that it can be repeated. */
  seed: number;
  /** Whether the caller chose it; a seed of ours means nothing to others. */
  seed_asked: boolean;
}

/**
 * What becomes of a run that was cut off by the death of the daemon or of the engine, or by a stop. `resume`: it goes on from its last
 * recorded token where its provider can, is asked again if nothing was delivered, and else ends. `restart`: it is asked again from the
 * beginning, and what was delivered is discarded. `end`: it ends, and keeps its text.
 */
export type Recovery = 'resume' | 'restart' | 'end';

export type RunCreated = EventOf<
  'run.accepted',
  {
    run_id: string;
    request: RunRequest;
    idempotency_key: string | null;
    /** SHA-256 of what was asked, so that a key is not used for something else. */
    request_digest?: string | null;
    /** Whose turn it is in the queue. */
    client: string;
    recovery?: Recovery;
    /** Its provider can go on from recorded tokens. */
    resumable?: boolean;
    /** `omitted`: the log does not hold what was asked, so that only the present process can answer it. */
    content?: 'omitted';
    max_attempts: number;
    /** Losses of the work in a row, without new text between them, until the run is given up. */
    max_losses?: number;
    queue_deadline_at: number;
    deadline_at: number;
    /** Longest wait for the first output of an attempt, model loading included. */
    first_output_ms: number;
    /** Longest silence between two outputs. */
    idle_ms: number;
    /** Longest wait for the work to stop once that was asked. */
    cancel_grace_ms: number;
  }
>;

export type DeadlineName = 'queue' | 'total' | 'first_output' | 'idle';

export type RunEvent =
  /** `resumes`: it goes on after the recorded output; otherwise what was recorded is discarded. */
  | EventOf<'run.started', { attempt: number; resumes?: boolean }>
  /**
   * `offset`: where it begins in the answer; only there when the log does not hold the text, so that only the present process knows it.
   * `threads`: how many threads compute the answer from here on; only there when that is known and changed.
   */
  | EventOf<
      'run.output_appended',
      { attempt: number; text: string; token_ids: number[]; offset?: number; threads?: number }
    >
  | EventOf<'run.completed', { attempt: number; finish_reason: FinishReason; usage: Usage }>
  | EventOf<'run.attempt_failed', { attempt: number; error: Failure; retry_at: number }>
  | EventOf<'run.failed', { attempt: number; error: Failure }>
  /**
   * The work is gone, or was stopped, before the answer was complete; the run waits to be resumed. `computing`: how many runs the
   * engine computed when it died, this one included; 0: it was stopped for a reason that is not this run. Logs without it do not say.
   */
  | EventOf<'run.suspended', { attempt: number; error: Failure; computing?: number }>
  /** Found unfinished by another life of the daemon. The time in which none ran counts for no deadline. */
  | EventOf<'run.recovered', { downtime_ms: number }>
  | EventOf<'run.cancel_requested', { by: string }>
  | EventOf<'run.deadline_passed', { deadline: DeadlineName }>
  | EventOf<'run.interrupt_requested', { reason: string }>
  | EventOf<'run.cancelled', { forced: boolean }>
  | EventOf<'run.timed_out', { forced: boolean }>
  | EventOf<'run.interrupted', { error: Failure }>;

// ---------------------------------------------------------------- provider

export type ProviderCreated = EventOf<
  'provider.configured',
  {
    provider_id: string;
    kind: 'local' | 'cloud';
    adapter: string;
    base_url: string | null;
    /** Failed probes in a row after which a provider that worked counts as unavailable. */
    failure_limit: number;
    /** Milliseconds from one probe to the next; null: this provider is probed only when asked. */
    probe_every_ms: number | null;
    probe_timeout_ms: number;
  }
>;

export type ProviderEvent =
  | EventOf<'provider.probe_started', { probe: number }>
  | EventOf<'provider.probe_succeeded', { probe: number; models: string[] | null }>
  | EventOf<'provider.probe_failed', { probe: number; error: Failure; unauthorised: boolean }>
  | EventOf<'provider.answered'>
  | EventOf<'provider.faulted', { error: Failure; unauthorised: boolean }>
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
}

export type EngineCreated = EventOf<
  'engine.created',
  { start_ms: number; load_ms: number; stop_ms: number; kill_ms: number; idle_ms: number }
>;

export type EngineEvent =
  /** `threads`: how many shall compute, where an answer that is gone on with was computed by as many. */
  | EventOf<
      'engine.load_requested',
      { attempt: number; model: string; path: string; threads?: number }
    >
  | EventOf<'engine.process_started', { attempt: number; pid: number }>
  | EventOf<'engine.model_loaded', { attempt: number; info: EngineInfo }>
  | EventOf<'engine.load_failed', { attempt: number; error: Failure }>
  | EventOf<'engine.work_started'>
  | EventOf<'engine.work_finished'>
  | EventOf<
      'engine.stop_requested',
      { reason: 'idle' | 'model_changed' | 'daemon_stopping' | 'requested' }
    >
  | EventOf<'engine.deadline_passed', { attempt: number }>
  /** `reason`: why the daemon ended it, where that was its own decision. */
  | EventOf<
      'engine.exited',
      { attempt: number; exit_code: number | null; signal: string | null; reason?: 'memory' }
    >
  | EventOf<'engine.backoff_elapsed'>;

// ---------------------------------------------------------------- pull

export type PullCreated = EventOf<
  'pull.requested',
  {
    pull_id: string;
    /** As it was asked for, without what follows a question mark. */
    reference: string;
    client: string;
    /** Failed attempts in a row, none of which got further than the one before, until it is given up. */
    failure_limit: number;
    /** Longest silence of the other side, and of the disk. */
    idle_ms: number;
    cancel_grace_ms: number;
  }
>;

export interface PullSource {
  /** Without what follows a question mark. */
  url: string;
  /** Name of the file in the models folder. */
  file: string;
  size_bytes: number | null;
  /** What the file must hash to; null when nobody says. */
  sha256: string | null;
  etag: string | null;
  /** Commit of the repository, where there is one. */
  revision: string | null;
  /** What else could have been meant, when one file of several was chosen. */
  choices: string[];
}

export type PullEvent =
  | EventOf<'pull.started', { attempt: number }>
  /** `offset_bytes` are there already, from before. */
  | EventOf<'pull.resolved', { attempt: number; offset_bytes: number } & PullSource>
  | EventOf<'pull.progressed', { attempt: number; bytes: number }>
  /** All bytes are on disk. `existing`: a model of this name was there before. */
  | EventOf<'pull.downloaded', { attempt: number; bytes: number; existing: boolean }>
  | EventOf<'pull.hashed', { attempt: number; bytes: number }>
  /** `compared`: there was a hash to compare with, and it is the same. */
  | EventOf<'pull.verified', { attempt: number; sha256: string; compared: boolean }>
  | EventOf<'pull.completed', { attempt: number; path: string }>
  | EventOf<'pull.attempt_failed', { attempt: number; error: Failure; retry_at: number }>
  | EventOf<'pull.failed', { attempt: number; error: Failure }>
  | EventOf<'pull.cancel_requested', { by: string }>
  | EventOf<'pull.cancelled', { forced: boolean }>;

export type CreationEvent =
  | DaemonCreated
  | RunCreated
  | ProviderCreated
  | EngineCreated
  | PullCreated;
export type MachineEvent = DaemonEvent | RunEvent | ProviderEvent | EngineEvent | PullEvent;
export type AnyEvent = CreationEvent | MachineEvent;

/** A fact that has not happened yet: the kernel gives it its time. */
export type NewEvent<F> = F extends { at: number } ? Omit<F, 'at'> : never;

/** A fact that comes true at a time unless something happens before. Derived from state, never stored. */
export interface Deadline<E extends MachineEvent = MachineEvent> {
  at: number;
  event: NewEvent<E>;
}
