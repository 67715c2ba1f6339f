import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import { acceptedTypesOf, stateName, statePath } from '../../machines/step.ts';
import { isoTime } from '../async/clock.ts';
import type { Config } from '../config/config.ts';
import type { ProviderConfig } from '../config/providers/provider.ts';
import type { LifecycleInput, LifecycleResult, StatusRecord } from '../contract/contract.ts';
import { descriptorTrouble } from '../descriptors.ts';
import { SvcError } from '../errors.ts';
import { EventPages } from '../kernel/event-pages.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore, VerifiedReport } from '../kernel/store/port.ts';
import { type DaemonKey, isRun } from '../kernel/stream.ts';
import type { DaemonHistory, StopReports } from '../observability/health/daemon-history.ts';
import { engineSnapshots } from '../observability/health/engines.ts';
import {
  type HealthSources,
  healthRecord,
  lastBoot,
  reportRecord,
} from '../observability/health/health.ts';
import { createHistory } from '../observability/history/history.ts';
import { Metrics } from '../observability/metrics/metrics.ts';
import { usageReport } from '../observability/usage-report.ts';
import type { ModelLoads } from '../ports/providers.ts';
import type { ToolServers } from '../ports/tools.ts';
import { withoutStalls } from '../runtime/disk/refuse-when-stalled.ts';
import { Embeddings } from '../runtime/embeddings/embeddings.ts';
import { type LocalModelsPort, Models, type ModelsOptions } from '../runtime/models/models.ts';
import type { Placement } from '../runtime/placement.ts';
import { changesOf } from '../runtime/providers/change.ts';
import { Loads } from '../runtime/providers/local-models.ts';
import { ManagedProviders } from '../runtime/providers/manage.ts';
import type { Providers } from '../runtime/providers/providers.ts';
import type { Pulls } from '../runtime/pulls/pulls.ts';
import { toRecord } from '../runtime/runs/event-record.ts';
import { moveWaitingRuns } from '../runtime/runs/recover.ts';
import { Runs } from '../runtime/runs/runs.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import type { Budget } from '../runtime/spending/budget.ts';
import { Approvals } from '../runtime/tools/approvals.ts';
import type { HomeRuntime, Runtime } from './port.ts';
import { viewOf } from './view.ts';

export interface RuntimeOptions {
  kernel: Kernel;
  store: EventStore;
  config: Config;
  providers: Providers;
  budget: Budget;
  scheduler: Scheduler;
  history: DaemonHistory;
  pulls: Pulls;
  mcp: Runtime['mcp'];
  stopReports: StopReports;
  /** Stream of this boot's daemon machine. */
  streams: { daemon: DaemonKey };
  home: string;
  /** Finished runs when the store was opened, and the present size of its files. */
  stored(): { finished: number; size_bytes: number | null; trouble?: string | null };
  /** The result of the slow check of the log. Null before the check begins. */
  verified(): VerifiedReport | null;
  /** The key for digests of this home. */
  secret: string;
  /** Writes the provider to providers.json, or removes it (null). */
  saveProvider(id: string, config: ProviderConfig | null): Promise<void>;
  /** A client asked for a stop. The stop ends at this time at the latest. */
  onStop?(close_deadline_at: number): void;
  localModels: LocalModelsPort & ModelLoads;
  placement: Placement;
  servers: ToolServers;
  saveChoices: ModelsOptions['saveChoices'];
  /** The database of the log in messages. Null or absent: a disk. */
  place?: string | null;
}

/** Builds the runtime that transports use. */
export function createRuntime(options: RuntimeOptions): HomeRuntime {
  const { kernel, config, providers, scheduler, history, streams, localModels } = options;
  const pages = new EventPages(config.limits.feed_bytes);
  // The pages may have events that are no longer in the log.
  kernel.subscribe({ stream: streams.daemon }, ({ type }) => {
    if (type === 'daemon.history_pruned') pages.forget();
  });
  moveWaitingRuns(kernel);
  const store = withoutStalls(options.store, kernel, options.place != null);
  const runs = new Runs({
    kernel,
    store,
    config,
    providers,
    budget: options.budget,
    scheduler,
    pages,
    daemon: streams.daemon,
    secret: options.secret,
    placement: options.placement,
    servers: options.servers,
  });
  const embeddings = new Embeddings({
    kernel,
    config,
    providers,
    budget: options.budget,
    daemon: streams.daemon,
  });
  // Health reports the proposed state while the disk does not take events.
  const daemon = () =>
    (kernel.stalled === null
      ? kernel.snapshot(streams.daemon)
      : kernel.tail(streams.daemon)) as DaemonSnapshot;
  const change = changesOf(kernel);
  const { saveProvider, saveChoices } = options;
  let ended = 0;
  kernel.subscribe({ machine: 'run' }, ({ type }) => {
    if (isTerminalEvent(type)) ended += 1;
  });
  const countFinished = () => options.stored().finished + ended - daemon().context.pruned_runs;
  const counts = () => ({
    active: scheduler.running,
    queued: scheduler.queued,
    finished: countFinished(),
  });
  const sources = (): HealthSources => ({
    daemon: daemon(),
    engines: engineSnapshots(kernel.instances.values()),
    providers: providers.list(),
    since: history.since,
    transitions: history.transitions,
    runs: counts(),
    embeddings: { ...embeddings.counts },
    seq: kernel.durableSeq,
    backlog: kernel.backlog,
    last_commit_ms: kernel.lastCommitMs,
    store_bytes: options.stored().size_bytes,
    store_trouble: options.stored().trouble ?? null,
    verified: options.verified(),
    stalled: kernel.stalled?.message ?? null,
    place: options.place,
    descriptor_trouble: descriptorTrouble(),
    placement: options.placement.health(isoTime(kernel.clock.now())),
    service_id: daemon().context.boot_id,
    now: kernel.clock.now(),
  });
  const probe = () => ({ live: daemon().hasTag('live'), ready: daemon().hasTag('ready') });
  const metrics = new Metrics({
    kernel,
    scheduler,
    report: () => reportRecord(sources()),
    ready: () => probe().ready,
    followers: () => pages.followers,
  });
  const status = () => statusRecord(daemon(), history, counts(), kernel.durableSeq, options.home);
  const runtime: Runtime = {
    runs,
    queue: scheduler,
    approvals: new Approvals(kernel, options.servers),
    embeddings,
    providers: new ManagedProviders({
      kernel,
      config,
      providers,
      saveProvider,
      saveChoices,
      change,
    }),
    nodes: options.placement.nodes,
    models: new Models({ kernel, config, providers, local: localModels, saveChoices, change }),
    loads: new Loads({
      config,
      providers,
      models: localModels,
      requestOf: (id) => (isRun(id) ? kernel.snapshot(id)?.context.request : undefined),
      now: () => kernel.clock.now(),
    }),
    pulls: options.pulls,
    mcp: options.mcp,
    history: createHistory({
      ...options,
      store,
      pages,
      limits: config.limits,
      status,
      getRun: (id) => runs.get(id),
      version: () => daemon().context.version,
    }),
    probe,
    health: () => healthRecord(sources()),
    report: () => reportRecord(sources()),
    status,
    metrics: (more) => metrics.text(more),
    stateChanges: history.changes,
    why: () => (kernel.instance(streams.daemon)?.recent ?? []).map(toRecord),
    usage: (query, asked_by) =>
      usageReport({ store, config, budget: options.budget }, query, asked_by),
    lifecycle: async (input, by) => {
      const event = lifecycleEvent(input, by, config, kernel.clock.now());
      if (event === null || !kernel.accepts(streams.daemon, event))
        throw eventRefusedError(input.type, kernel.tail(streams.daemon) as DaemonSnapshot);
      if (event.type === 'daemon.stop_requested') options.onStop?.(event.close_deadline_at);
      await awaitRecordOrStall(kernel, kernel.append([{ stream: streams.daemon, event }]));
      return position(daemon());
    },
    stopped: () => options.stopReports.stopped,
  };
  const as: HomeRuntime['as'] = (by) =>
    by.name === null ? runtime : viewOf(runtime, { ...by, name: by.name });
  return { ...runtime, as };
}

function statusRecord(
  daemon: DaemonSnapshot,
  history: DaemonHistory,
  runs: StatusRecord['runs'],
  seq: number,
  home: string,
): StatusRecord {
  const { pid, version, boot_id, addresses } = daemon.context;
  return {
    ...position(daemon),
    since: isoTime(history.since),
    ...(history.ready_since === null ? {} : { ready_since: isoTime(history.ready_since) }),
    pid,
    version,
    boot_id,
    home,
    addresses,
    runs,
    seq,
    last_boot: lastBoot(daemon),
  };
}

function position(daemon: DaemonSnapshot): LifecycleResult {
  return { state: stateName(daemon), state_path: statePath(daemon) };
}

/**
 * The event for a lifecycle request. Null for an event that only the daemon itself can propose.
 */
function lifecycleEvent(
  input: LifecycleInput,
  by: string,
  config: Config,
  now: number,
): NewEvent<DaemonEvent> | null {
  if (input.type !== 'stop_requested') return null;
  const mode = input.mode === 'force' ? 'force' : 'drain';
  const drain_deadline_at =
    now + (mode === 'force' ? 0 : (input.timeout_ms ?? config.limits.drain_ms));
  return {
    type: 'daemon.stop_requested',
    by,
    mode,
    drain_deadline_at,
    close_deadline_at: drain_deadline_at + config.limits.close_ms,
  };
}

/** A log that cannot be written does not delay a stop. The proposed state already shows it. */
async function awaitRecordOrStall(kernel: Kernel, recorded: Promise<void>): Promise<void> {
  if (kernel.stalled !== null) return void recorded.catch(() => {});
  const { promise: stalled, resolve } = Promise.withResolvers<void>();
  const listening = new AbortController();
  kernel.stalls.onStall(() => resolve(), listening.signal);
  await Promise.race([recorded, stalled]).finally(() => listening.abort());
}

function eventRefusedError(type: string, daemon: DaemonSnapshot): SvcError {
  const open = acceptedTypesOf(daemon).includes('daemon.stop_requested') ? ['stop_requested'] : [];
  return new SvcError(
    'event_refused',
    `${JSON.stringify(type)} is not accepted in the state ${statePath(daemon)}.`,
    { details: { ...position(daemon), accepted: open } },
  );
}
