import type { StopReport } from '../../machines/daemon/context.ts';
import type { Notifier } from '../async/notifier.ts';
import type {
  EventRecord,
  HealthRecord,
  LifecycleInput,
  LifecycleResult,
  Probe,
  ReportRecord,
  StatusRecord,
  UsageRecord,
} from '../contract/contract.ts';
import type { UsageInput } from '../contract/usage.ts';
import type { History } from '../observability/history/history.ts';
import type { Family } from '../observability/metrics/tally.ts';
import type { ManagedToolServers } from '../ports/tools.ts';
import type { Embeddings } from '../runtime/embeddings/embeddings.ts';
import type { Models } from '../runtime/models/models.ts';
import type { NodesPort } from '../runtime/placement.ts';
import type { Principal } from '../runtime/principal/principal.ts';
import type { Loads } from '../runtime/providers/local-models.ts';
import type { ManagedProviders } from '../runtime/providers/manage.ts';
import type { Pulls } from '../runtime/pulls/pulls.ts';
import type { Runs } from '../runtime/runs/runs.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import type { Approvals } from '../runtime/tools/approvals.ts';

/**
 * The interface of the runtime for transports: its parts with their methods, and the daemon itself.
 * Every method may throw SvcError. Any other error is a defect. The view of a named token may throw
 * scope_insufficient, and knows only what that token may see.
 */
export interface Runtime extends DaemonRequests {
  readonly runs: Public<Runs>;
  /** The calls that wait for a person. */
  readonly approvals: Public<Approvals>;
  /** The position of a run in the queue. */
  readonly queue: Pick<Scheduler, 'watch'>;
  readonly embeddings: Pick<Embeddings, 'embed' | 'rerank' | 'read' | 'pass'>;
  readonly providers: Public<ManagedProviders>;
  readonly models: Public<Models>;
  /** The local models in memory. */
  readonly loads: Public<Loads>;
  /** The tool servers. */
  readonly mcp: Pick<ManagedToolServers, 'list' | 'show' | 'stop' | 'allowAlways'>;
  readonly pulls: Pick<Pulls, 'search' | 'pull' | 'import' | 'cancel'>;
  readonly history: History;
  /** The daemons that share the log of this one. */
  readonly nodes: NodesPort;
}

/**
 * The runtime itself, which may do everything. Each transport takes the view of the requesting
 * principal.
 */
export interface HomeRuntime extends Runtime {
  as(by: Principal): Runtime;
}

/** A class without its private fields, so that a test can replace it. */
type Public<Part> = Pick<Part, keyof Part>;

export interface DaemonRequests {
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
  /**
   * The usage of runs, and the rest of the budget. `asked_by`: only the requests with the token of
   * this name.
   */
  usage(query: UsageInput, asked_by?: string): Promise<UsageRecord>;
  /**
   * Proposes a lifecycle event, such as stop_requested. Throws event_refused with details {state,
   * accepted}.
   */
  lifecycle(event: LifecycleInput, by: string): Promise<LifecycleResult>;
  /** Resolves when the daemon has stopped, with what happened to its runs. Null when it failed. */
  stopped(): Promise<StopReport | null>;
}
