import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import type { Paths } from '../home/paths.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EffectHandlers, Log } from '../kernel/port.ts';
import { type DaemonKey, stream, streamPort } from '../kernel/stream.ts';
import type { Limits } from '../limits.ts';
import { Origins } from '../models/origins.ts';
import { Puller } from '../models/puller.ts';
import { createRemote } from '../providers/adapters.ts';
import { createKeys } from '../providers/keys/keys.ts';
import { StoredKeys } from '../providers/keys/stored-keys.ts';
import type { EnginePorts } from '../providers/local/engines.ts';
import { createLocalProvider } from '../providers/local/provider.ts';
import { OtherModels } from '../providers/local/stores/others.ts';
import type { Offer } from '../runtime/fleet/claims.ts';
import { FleetRuns } from '../runtime/fleet/fleet-runs.ts';
import { LOCAL, Providers } from '../runtime/providers/providers.ts';
import { Pulls } from '../runtime/pulls/pulls.ts';
import { RunExecutor } from '../runtime/runs/executor.ts';
import { OutputBudget } from '../runtime/runs/output-budget.ts';
import { Scheduler } from '../runtime/runs/scheduler.ts';
import { Budget } from '../runtime/usage/budget.ts';
import { isShared, type TakenOver } from '../store/fleet.ts';
import type { EventStore } from '../store/port.ts';
import { hostBootId } from './host.ts';

export interface WorkOptions {
  paths: Paths;
  config: Config;
  kernel: Kernel;
  store: EventStore;
  clock: Clock;
  log: Log;
  boot_id: string;
  streams: { daemon: DaemonKey };
  /** This node has fenced other ones. */
  onTakenOver(nodes: readonly TakenOver[]): void;
  /** Throws lease_lost if another node has fenced this one. */
  confirm(): Promise<void>;
  /** False while the clock of this node is too far from that of the database. */
  takesRuns(): boolean;
}

/** What a node of a fleet can ask: each usable provider, and of the built-in one its models. */
function offersOf(providers: Providers): Offer[] {
  const usable = [...providers.settings().keys()].filter((id) => providers.retryAt(id) === null);
  return usable.map((provider) => ({
    provider,
    models: provider === LOCAL ? (providers.listed(LOCAL) ?? []) : null,
  }));
}

/** The machines of the engines of this boot. */
function enginePorts(kernel: Kernel, boot_id: string, limits: Limits): EnginePorts {
  const { engine_start_ms, engine_load_ms, engine_stop_ms, engine_idle_ms } = limits;
  return {
    create: async (number) => {
      const key = stream.engine(boot_id, number);
      const event = {
        type: 'engine.created',
        number,
        start_ms: engine_start_ms,
        load_ms: engine_load_ms,
        stop_ms: engine_stop_ms,
        kill_ms: engine_stop_ms,
        idle_ms: engine_idle_ms,
      } as const;
      await kernel.append([{ stream: key, event }]);
      return streamPort(kernel, key);
    },
    forget: (number) => kernel.forget(stream.engine(boot_id, number)),
  };
}

/**
 * Builds what answers prompts and downloads models: the providers, the scheduler, the executor and
 * the pulls.
 */
export function buildWork(options: WorkOptions) {
  const { paths, config, kernel, store, clock, log, boot_id, streams } = options;
  const { onTakenOver, confirm, takesRuns } = options;
  const { limits } = config;
  const { env } = process;
  const stored = new StoredKeys(paths.keys);
  const keysOf = (id: string) => createKeys(env, { id, keys: stored });
  const origins = new Origins(join(paths.data, 'origins'));
  const local = createLocalProvider({
    engines: enginePorts(kernel, boot_id, limits),
    models: paths.models,
    cache: paths.cache,
    limits,
    model: config.model,
    threads: config.engine_threads,
    batching: config.engine_batching,
    gpu_layers: config.engine_gpu_layers,
    budget_bytes: config.models_memory_bytes,
    keep: config.keep_alive,
    library: {
      others: config.other_models
        ? new OtherModels({ env, folders: config.model_folders, filesMax: limits.local_models })
        : null,
      origins,
      isWriting: (file) => puller.isWriting(file),
    },
    log,
    now: () => clock.now(),
  });
  const providers = new Providers({
    kernel,
    boot_id,
    config,
    env,
    log,
    keysOf,
    local: local.provider,
    remote: (id, settings) =>
      createRemote({
        id,
        config: settings,
        env,
        keys: keysOf(id),
        limits,
        adapters: paths.adapters,
      }),
  });
  const budget = new Budget({ kernel, store, config });
  const outputs = new OutputBudget(limits.answers_bytes);
  const scheduler = new Scheduler({
    kernel,
    daemon: streams.daemon,
    concurrency: {
      total: limits.active_runs,
      perProvider: limits.provider_runs,
      local: limits.local_runs,
      // In a fleet, runs wait for any node, and are taken in a fair order.
      kept: isShared(store) ? 0 : 1,
      ofProvider: (id) => providers.config(id)?.max_runs ?? undefined,
    },
    room: local.room,
    outputs,
    log,
    ...(isShared(store)
      ? { othersWait: (provider: string) => fleet?.othersWait(provider) === true }
      : {}),
  });
  const fleet = isShared(store)
    ? new FleetRuns({
        store,
        kernel,
        scheduler,
        limits,
        log,
        daemon: streams.daemon,
        offers: () => offersOf(providers),
        fileOf: (provider, model) =>
          provider === LOCAL ? local.identify(model) : Promise.resolve(null),
        onTakenOver,
        confirm,
        takesRuns,
      })
    : undefined;
  const executor = new RunExecutor({
    kernel,
    store,
    limits,
    log,
    outputs,
    provider: (request) => providers.portFor(request),
    refusal: (context) => budget.enter(context),
    enter: (...request) => providers.enter(...request),
    retryAt: (id, model) => providers.retryAt(id, model),
    onOutcome: (...outcome) => providers.recordOutcome(...outcome),
  });
  const puller = new Puller({
    folder: paths.models,
    env,
    limits,
    log,
    host_boot_id: hostBootId(),
    stream: (id) => streamPort(kernel, stream.pull(id, boot_id)),
    now: () => clock.now(),
    origins,
  });
  const pulls = new Pulls({
    kernel,
    limits,
    log,
    boot_id,
    daemon: streams.daemon,
    puller,
    modelAt: async (path) => {
      // A name alone leads to the provider that lists it.
      await providers.probe(LOCAL);
      const models = await local.provider.models(AbortSignal.timeout(limits.pull_idle_ms));
      return models.find((model) => model.path === path) ?? null;
    },
  });
  const handlers: Omit<EffectHandlers, 'closeDaemon'> = {
    startAttempt: (params) => executor.start(params),
    stopAttempt: (params) => executor.stop(params),
    probeProvider: (params) => providers.handleProbe(params),
    startPull: (params) => puller.start(params),
    stopPull: (params) => puller.stop(params),
    ...local.handlers,
  };
  return { local, providers, budget, scheduler, fleet, puller, pulls, handlers };
}
