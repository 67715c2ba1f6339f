import { dirname, join } from 'node:path';
import type { Clock } from '../async/clock.ts';
import { timeoutSignal } from '../async/timers.ts';
import type { Config } from '../config/config.ts';
import { createKeys, fixedKey } from '../config/keys/keys.ts';
import type { ProviderKeys } from '../config/keys/port.ts';
import { mcpKey, mcpLogin, StoredKeys } from '../config/keys/stored-keys.ts';
import { mcpFile } from '../config/mcp-file.ts';
import { type ProviderConfig, withDefaults } from '../config/providers/provider.ts';
import { attentionOf } from '../contract/attention.ts';
import { buildsFolder } from '../home/engine-builds.ts';
import { hostBootId } from '../home/host.ts';
import { installedLlamaServer } from '../home/llama-server.ts';
import type { Paths } from '../home/paths.ts';
import { keepsContent } from '../kernel/content.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../kernel/store/port.ts';
import { type DaemonKey, stream, streamPort } from '../kernel/stream.ts';
import { type Limits, LOCAL_RUNS } from '../limits.ts';
import { Origins, Puller } from '../models/index.ts';
import type { EffectHandlers, Log } from '../ports/log.ts';
import { createRemote } from '../providers/adapters.ts';
import type { EnginePorts } from '../providers/local/engines.ts';
import type { ByModel } from '../providers/local/models.ts';
import { createLocalProvider } from '../providers/local/provider.ts';
import { OtherModels } from '../providers/local/stores/others.ts';
import { SeparateJudge } from '../runtime/judge/judge.ts';
import { loadedAliasesOf } from '../runtime/models/alias.ts';
import { LOCAL, Providers } from '../runtime/providers/providers.ts';
import { Pulls } from '../runtime/pulls/pulls.ts';
import { RunExecutor } from '../runtime/runs/executor.ts';
import { OutputBudget } from '../runtime/runs/output-recorder.ts';
import { Scheduler } from '../runtime/runs/scheduler.ts';
import { Budget } from '../runtime/spending/budget.ts';
import { ToolCalls } from '../runtime/tools/tool-calls.ts';
import { type McpMachines, McpServers } from '../tools/index.ts';

export interface WorkOptions {
  paths: Paths;
  config: Config;
  kernel: Kernel;
  store: EventStore;
  clock: Clock;
  log: Log;
  boot_id: string;
  streams: { daemon: DaemonKey };
  version: string;
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

/** The machines of the tool servers of this boot. */
function mcpMachines(kernel: Kernel, boot_id: string, limits: Limits): McpMachines {
  return {
    create: async (name, number, transport) => {
      const key = stream.mcp(name, boot_id, number);
      const { mcp_start_ms: start_ms, mcp_stop_ms: stop_ms, mcp_idle_ms: idle_ms } = limits;
      const waits = { start_ms, stop_ms, idle_ms };
      const event = { type: 'mcp.created', name, number, transport, ...waits } as const;
      await kernel.append([{ stream: key, event }]);
      return streamPort(kernel, key);
    },
    forget: (name, number) => kernel.forget(stream.mcp(name, boot_id, number)),
  };
}

/**
 * Builds the parts that answer prompts and download models: the providers, the scheduler, the
 * executor and the pulls.
 */
export function buildWork(options: WorkOptions) {
  const { paths, config, kernel, store, clock, log, boot_id, streams, version } = options;
  const { limits } = config;
  const { env } = process;
  const stored = new StoredKeys(paths.keys);
  const keysOf = (id: string) => createKeys(env, { id, keys: stored });
  const origins = new Origins(join(paths.data, 'origins'));
  const puller = new Puller({
    folder: paths.models,
    env,
    limits,
    log,
    host_boot_id: hostBootId(),
    stream: (id) => streamPort(kernel, stream.pull(id, boot_id)),
    now: () => clock.now(),
    origins,
    fit: (size_bytes) => local.fit(size_bytes),
  });
  // Aliases change while the daemon runs.
  const byModel = <V>(values: Readonly<Record<string, V>>): ByModel<V>[] =>
    Object.entries(values).flatMap(([name, value]) =>
      [config.aliases[name] ?? name].flat().map((model) => ({ model, value })),
    );
  const local = createLocalProvider({
    engines: enginePorts(kernel, boot_id, limits),
    models: paths.models,
    cache: paths.cache,
    builds: buildsFolder(paths),
    limits,
    model: config.model,
    threads: config.engine_threads,
    batching: config.engine_batching,
    gpu_layers: config.engine_gpu_layers,
    attention: attentionOf(config),
    budget_bytes: config.models_memory_bytes,
    keep: config.keep_alive,
    library: {
      others: config.other_models
        ? new OtherModels({ env, folders: config.model_folders, filesMax: limits.local_models })
        : null,
      origins,
      templates: () => byModel(config.model_templates),
      adapters: () => byModel(config.model_adapters),
      drafts: () => byModel(config.model_drafts),
      created: () => loadedAliasesOf(config),
      isWriting: (file) => puller.isWriting(file),
    },
    media: {
      program: () => config.llama_server ?? installedLlamaServer(paths),
      at: (id, base_url, key) => {
        const settings = withDefaults(id, { like: 'llama-server', base_url, model: id });
        const keys = fixedKey(key);
        return createRemote({ id, config: settings, env, keys, limits, adapters: paths.adapters });
      },
    },
    keeps_prompts: keepsContent(config.history),
    hasRun: async (run_id) => (await store.runHead(run_id)) !== null,
    log,
    now: () => clock.now(),
  });
  kernel.subscribe({ stream: streams.daemon }, ({ type }) => {
    if (type === 'daemon.providers_probed' || type === 'daemon.history_pruned')
      void local.prompts.sweep();
  });
  const providers = new Providers({
    kernel,
    boot_id,
    config,
    env,
    log,
    keysOf,
    local: local.provider,
    remote: (id, settings) => {
      const remote = (config: ProviderConfig, keys: ProviderKeys) =>
        createRemote({ id, config, env, keys, limits, adapters: paths.adapters });
      const { command, memory_bytes, model } = settings;
      if (command === null) return remote(settings, keysOf(id));
      const at = (base_url: string, key: string) =>
        remote({ ...settings, base_url }, fixedKey(key));
      return local.serve({ id, command, memory_bytes, at }, model ?? id);
    },
  });
  const budget = new Budget({ kernel, store, config });
  const outputs = new OutputBudget(limits.answers_bytes);
  const scheduler = new Scheduler({
    kernel,
    daemon: streams.daemon,
    concurrency: {
      total: limits.active_runs,
      perProvider: limits.provider_runs,
      local: limits.local_runs || LOCAL_RUNS.most,
      claimed: limits.local_runs || LOCAL_RUNS.least,
      kept: 1,
      ofProvider: (id) => providers.config(id)?.max_runs ?? undefined,
    },
    room: local.room,
    outputs,
    log,
  });
  const judge = new SeparateJudge(limits);
  const executor = new RunExecutor({
    kernel,
    store,
    limits,
    log,
    outputs,
    judge,
    provider: (request) => providers.portFor(request),
    refusal: (context) => budget.enter(context),
    enter: (...request) => providers.enter(...request),
    retryAt: (id, model) => providers.retryAt(id, model),
    onOutcome: (...outcome) => providers.recordOutcome(...outcome),
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
      const models = await local.provider.models(timeoutSignal(limits.pull_idle_ms));
      return models.find((model) => model.path === path) ?? null;
    },
  });
  const mcp = new McpServers({
    file: mcpFile(paths.config),
    folder: join(paths.data, 'mcp'),
    machines: mcpMachines(kernel, boot_id, limits),
    version,
    env,
    key: (server, name) => {
      const { id, owner } = mcpKey(server, name);
      return stored.read(id, owner);
    },
    login: (server) => mcpLogin(stored, server),
    closed: [dirname(paths.config), paths.data, dirname(paths.runtime), paths.cache],
    limits,
    log,
    now: () => clock.now(),
  });
  const toolCalls = new ToolCalls({ kernel, servers: mcp, judge, limits, log });
  const handlers: Omit<EffectHandlers, 'closeDaemon'> = {
    startAttempt: (params) => executor.start(params),
    stopAttempt: (params) => executor.stop(params),
    callTools: (params) => toolCalls.go(params),
    probeProvider: (params) => providers.handleProbe(params),
    startPull: (params) => puller.start(params),
    stopPull: (params) => puller.stop(params),
    ...local.handlers,
    ...mcp.handlers,
  };
  return { mcp, local, providers, budget, scheduler, puller, pulls, toolCalls, handlers };
}
