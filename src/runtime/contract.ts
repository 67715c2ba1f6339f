import type { AnyEvent, Recovery, StopReport } from '../../machines/events.ts';
import type { EventSlice } from '../kernel/event-page.ts';
import type { EventRecord } from '../kernel/event-record.ts';
import type { RunRecord } from '../kernel/run-record.ts';
import type { PullInput } from '../models/port.ts';
import type { ModelRecord } from '../providers/port.ts';
import type { Travel } from './history/contract.ts';
import type { PullRecord } from './pulls/record.ts';
import type { RecordBytes } from './runs/record-bytes.ts';

export type { EventPage, EventSlice } from '../kernel/event-page.ts';
export type { EventRecord } from '../kernel/event-record.ts';
export type { RunRecord } from '../kernel/run-record.ts';

/**
 * What a transport may ask for. Records are in the form that users see: snake_case, RFC 3339 times.
 * Every method may throw SvcError; nothing else that is thrown is meant for the caller.
 */

export interface RunInput {
  prompt: string;
  system?: string | null;
  provider?: string | null;
  model?: string | null;
  cloud?: boolean;
  max_tokens?: number | null;
  temperature?: number | null;
  seed?: number | null;
  timeout_ms?: number | null;
  idempotency_key?: string | null;
  /** What becomes of the run when it is cut off; without it, what the configuration says. */
  recovery?: Recovery | null;
  /** A name for whose turn it is in the queue; without it, the transport's own. */
  client?: string | null;
  /** The transport cancels the run when the one who started it goes away. */
  cancel_on_disconnect?: boolean;
}

export interface StatusRecord {
  state: string;
  state_path: string;
  since: string;
  pid: number;
  version: string;
  boot_id: string;
  home: string;
  addresses: { http: string | null; grpc: string | null; socket: string | null };
  runs: { active: number; queued: number; finished: number };
  seq: number;
  last_boot: { boot_id: string; ending: string; at: string } | null;
}

export interface HealthRecord {
  status: 'pass' | 'warn' | 'fail';
  version: string;
  service_id: string;
  state: string;
  state_path: string;
  since: string;
  reason: string | null;
  output?: string;
}

/** The slow check of the whole log. */
export interface VerifiedRecord {
  /** Where its present round has come to. */
  seq: number;
  /** When its last whole round ended. */
  at: string | null;
  /** Places that are known to be damaged. */
  damaged: number;
  /** The first of them, in sentences; none for the public. */
  problems: string[];
}

export interface ReportRecord extends HealthRecord {
  ready_when: string | null;
  /** The last state changes of the daemon, oldest first. */
  transitions: { at: string; event: string; state_path: string }[];
  runs: { active: number; queued: number; finished: number };
  queue: { length: number; capacity: number };
  providers: ProviderRecord[];
  engine: EngineRecord;
  log: {
    seq: number;
    durable_seq: number;
    lag: number;
    last_commit_ms: number | null;
    size_bytes: number | null;
    verified: VerifiedRecord;
  };
  memory: { rss_bytes: number; heap_used_bytes: number };
  last_boot: StatusRecord['last_boot'];
  checks: Record<
    string,
    {
      status: 'pass' | 'warn' | 'fail';
      componentType?: string;
      observedValue?: unknown;
      observedUnit?: string;
      time: string;
      output?: string;
    }[]
  >;
}

/** The report as anybody may see it. */
export interface PublicReport extends Omit<ReportRecord, 'providers' | 'engine'> {
  providers: Pick<ProviderRecord, 'id' | 'kind' | 'state'>[];
  engine: Pick<EngineRecord, 'state'>;
}

export interface EngineRecord {
  state: string;
  since: string;
  model: string | null;
  pid: number | null;
  threads: number | null;
  context_length: number | null;
  parallel: number | null;
  error: string | null;
}

export interface ProviderRecord {
  id: string;
  kind: 'local' | 'cloud';
  adapter: string;
  state: string;
  reason: string | null;
  since: string;
  base_url: string | null;
  /** Where the key comes from, never the key: `none`, `env:NAME`, `env:NAME (not set)`. */
  credential: string;
  models: number | null;
  default: boolean;
}

export interface ProviderInput {
  id: string;
  base_url: string;
  adapter?: string;
  model?: string | null;
  key_env?: string | null;
  kind?: 'local' | 'cloud';
}

export interface LifecycleResult {
  state: string;
  state_path: string;
}

/** What is known of a run without its texts. */
export interface RunHead {
  finished: boolean;
  /** Position of its last event in the log. */
  seq: number;
}

export interface RunListQuery {
  limit?: number;
  /** Runs older than this one. */
  before?: string;
  state?: string;
  provider?: string;
  /** `short`: the beginning of the texts; a run that was cut is `shortened`. */
  texts?: 'whole' | 'short';
}

export interface RunPage {
  runs: (RunRecord & { shortened?: true })[];
  /** Pass as `before` for the next page; null on the last one. */
  next: string | null;
  /** Runs of this page that cannot be shown, where there are such. */
  damaged?: { id: string; message: string }[];
}

/** Where a machine stands. */
export interface Probe {
  live: boolean;
  ready: boolean;
}

export interface Runtime extends Travel {
  /** The three health reads touch memory only: no lock, no I/O, no provider. */
  probe(): Probe;
  health(): HealthRecord;
  report(): ReportRecord;
  status(): StatusRecord;
  /** Called after each change of the daemon's state; returns the way to stop it. */
  onState(listener: () => void): () => void;
  /** The events of this boot's daemon stream that are still in memory, oldest first. */
  why(): EventRecord[];

  /** Resolves when the run is durable. */
  startRun(input: RunInput, client: string): Promise<RunRecord>;
  getRun(id: string): Promise<RunRecord>;
  /** The same for a client. Of a finished run it is JSON already, which is not made again for each client. */
  showRun(id: string): Promise<RunRecord | RecordBytes>;
  /** Cheap, however large the run is. */
  headOfRun(id: string): Promise<RunHead>;
  listRuns(query: RunListQuery): Promise<RunPage>;
  /** The run's events from `from_seq` on, replayed, then live, until its terminal event, some at a time. Ends early if the signal aborts or the daemon closes. */
  followRun(
    id: string,
    options: { from_seq?: number; signal: AbortSignal },
  ): AsyncIterable<EventSlice>;
  /** Calls with the place of a run in the queue, 1 being the next to start, now and when it changes; null once it waits no more. Returns the way to stop it. */
  watchQueue(id: string, listener: (position: number | null) => void): () => void;
  /** Resolves when the work has stopped; of a finished run, at once. */
  cancelRun(id: string, by: string): Promise<RunRecord>;

  /** A lifecycle event from outside, such as stop_requested. Throws event_refused with details {state, accepted}. */
  lifecycle(
    event: { type: string; mode?: string; timeout_ms?: number },
    by: string,
  ): Promise<LifecycleResult>;

  /** Resolves when the daemon has stopped: what became of its runs meanwhile. Null when it failed. */
  stopped(): Promise<StopReport | null>;

  listModels(): Promise<ModelRecord[]>;
  showModel(
    id: string,
  ): Promise<ModelRecord & { metadata: Record<string, unknown>; metadata_left_out: number }>;
  removeModel(id: string): Promise<ModelRecord>;
  /** Fetches a model: its record, now and at each change; the last one has the model. It is cancelled when nobody waits for it any more. */
  pullModel(
    input: PullInput,
    options: { client: string; signal: AbortSignal },
  ): AsyncIterable<PullRecord>;
  /** Resolves when the work has stopped; `cancelled` is false when others wait for it, so that it goes on. */
  cancelPull(id: string, by: string): Promise<{ cancelled: boolean }>;
  listProviders(): ProviderRecord[];
  addProvider(input: ProviderInput): Promise<ProviderRecord>;
  removeProvider(id: string): Promise<ProviderRecord>;
  /** Probes now, and waits for the outcome. */
  testProvider(id: string): Promise<ProviderRecord>;
}

/** The terminal facts of a run. */
export const TERMINAL: ReadonlySet<AnyEvent['type']> = new Set<AnyEvent['type']>([
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.timed_out',
  'run.interrupted',
]);
