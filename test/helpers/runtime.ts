import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';
import { type Config, loadConfig } from '../../src/config/config.ts';
import { createKeys } from '../../src/config/keys/keys.ts';
import type { ProviderKeys } from '../../src/config/keys/port.ts';
import type { ModelChoices } from '../../src/config/models-file.ts';
import type { Settings } from '../../src/config/settings.ts';
import { SvcError } from '../../src/errors.ts';
import type { FleetClock } from '../../src/fleet/clock.ts';
import type { SharedStore } from '../../src/fleet/port.ts';
import { FleetRuns } from '../../src/fleet/runs.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { stream, streamPort } from '../../src/kernel/stream.ts';
import { type Limits, LOCAL_RUNS } from '../../src/limits.ts';
import { Puller, type PullerOptions } from '../../src/models/puller.ts';
import { DaemonHistory, StopReports } from '../../src/observability/health/daemon-history.ts';
import { createRuntime } from '../../src/operations/create.ts';
import type { LoadedModel, ProviderPort } from '../../src/ports/providers.ts';
import type { ToolServers } from '../../src/ports/tools.ts';
import type { ArgumentsJudge } from '../../src/runtime/judge/judge.ts';
import { OneDaemon } from '../../src/runtime/placement.ts';
import { Providers } from '../../src/runtime/providers/providers.ts';
import { Pulls } from '../../src/runtime/pulls/pulls.ts';
import { RunExecutor } from '../../src/runtime/runs/executor.ts';
import { OutputBudget } from '../../src/runtime/runs/output-recorder.ts';
import { recoverRuns } from '../../src/runtime/runs/recover.ts';
import { Scheduler } from '../../src/runtime/runs/scheduler.ts';
import { Budget } from '../../src/runtime/spending/budget.ts';
import { ToolCalls } from '../../src/runtime/tools/tool-calls.ts';
import { facts } from '../kernel/store/fleet-nodes.ts';
import { bootStarted } from './boot-event.ts';
import { judgeHere } from './judge-here.ts';
import { bootKernel, silent } from './kernel.ts';
import type { ManualClock } from './manual-clock.ts';
import { providerConfig } from './provider-config.ts';
import { ScriptedProvider } from './scripted-provider.ts';
import { ScriptedServers } from './scripted-servers.ts';

export const NOWHERE = '/nonexistent/svc/config.json';

export interface RuntimeOptions {
  local: ProviderPort;
  remote?: Record<
    string,
    { port: ProviderPort; kind: 'local' | 'cloud'; key?: string; max_runs?: number }
  >;
  limits?: Partial<Limits>;
  settings?: Partial<Settings>;
  store?: EventStore;
  boot_id?: string;
  /** The clock of this boot. By default every boot starts at the same time. */
  clock?: ManualClock;
  env?: NodeJS.ProcessEnv;
  /** The keys of a provider. By default they are in `env`. */
  keysOf?: (id: string) => ProviderKeys;
  /** The models folder, and what the puller knows of the machine. */
  puller?: Partial<Pick<PullerOptions, 'folder' | 'host_boot_id' | 'freeBytes' | 'log' | 'fit'>>;
  /** The fault of the log. */
  trouble?: () => string | null;
  /** How far a model is loaded. By default none is being loaded. */
  loading?: (model: string) => number | null;
  /** From 0 to 1, for the jitter of waits. The default is 0. */
  random?: () => number;
  /** This boot is a node of a fleet. Its store is the one of the fleet. */
  node?: {
    id: string;
    store: SharedStore;
    models?: readonly string[] | undefined;
    /** The file of each of its models. */
    file?: string | undefined;
    /** The clock of the machine. Absent: it is right. */
    time?: FleetClock;
  };
  /** The tool servers. By default there are none. */
  servers?: ToolServers;
  judge?: ArgumentsJudge;
  /** Places that tokens leave to the home. The default is 0. */
  kept?: number;
  /** The last step of the start. */
  until?: 'opened' | 'recovered' | 'ready';
}

/**
 * The whole daemon without sockets and process: real kernel, machines and runtime, with a clock
 * that the test moves.
 */
export async function bootRuntime(options: RuntimeOptions) {
  const { boot_id = 'boot_1', env = {}, remote = {}, until = 'ready' } = options;
  const loaded = loadConfig(NOWHERE, { env: {} });
  const entries = Object.entries(remote).map(
    ([id, { kind, key = null, max_runs = null }]) =>
      [id, providerConfig({ kind, key, max_runs })] as const,
  );
  const config: Config = {
    ...loaded,
    ...options.settings,
    limits: { ...loaded.limits, ...options.limits },
    providers: Object.fromEntries(entries),
  };
  const harness = await bootKernel({
    ...(options.store ? { store: options.store } : {}),
    ...(options.node ? { store: options.node.store } : {}),
    ...(options.clock ? { clock: options.clock } : {}),
    boot_id,
    limits: config.limits,
  });
  const { kernel, store, clock } = harness;
  const streams = { daemon: stream.daemon(boot_id) };
  const { daemon } = streams;
  if (options.node) await options.node.store.fleet.join(facts(options.node.id, { boot_id }), null);
  const event = bootStarted(boot_id, config.limits.queue_runs, clock.now() + 1e6);
  await kernel.append([{ stream: daemon, event }]);
  const history = new DaemonHistory(kernel, daemon);
  const stopReports = new StopReports(kernel, daemon);
  const outputs = new OutputBudget(config.limits.answers_bytes);
  const scheduler = new Scheduler({
    kernel,
    daemon,
    concurrency: {
      total: config.limits.active_runs,
      perProvider: config.limits.provider_runs,
      local: config.limits.local_runs || LOCAL_RUNS.least,
      kept: options.kept ?? 0,
      ofProvider: (id) => providers.config(id)?.max_runs ?? undefined,
    },
    outputs,
    log: silent,
  });
  const port = (id: string) => remote[id]?.port ?? new ScriptedProvider(id, []);
  const providers = new Providers({
    kernel,
    boot_id,
    config,
    env,
    log: silent,
    keysOf: options.keysOf ?? (() => createKeys(env)),
    local: options.local,
    remote: port,
  });
  const budget = new Budget({ kernel, store, config });
  const executor = new RunExecutor({
    judge: judgeHere,
    kernel,
    store,
    limits: config.limits,
    log: silent,
    provider: (request) => providers.portFor(request),
    refusal: (context) => budget.enter(context),
    enter: (...request) => providers.enter(...request),
    retryAt: (id) => providers.retryAt(id),
    onOutcome: (id, outcome, run_id) => providers.recordOutcome(id, outcome, run_id),
    outputs,
    random: options.random ?? (() => 0),
  });
  const puller = new Puller({
    folder: '/nonexistent/svc/models',
    env,
    limits: config.limits,
    log: silent,
    host_boot_id: 'host',
    ...options.puller,
    stream: (id) => streamPort(kernel, stream.pull(id, boot_id)),
    now: () => clock.now(),
  });
  const modelAt = async (path: string) =>
    (await options.local.models(new AbortController().signal)).find(
      (model) => model.path === path,
    ) ?? null;
  const pulls = new Pulls({
    kernel,
    limits: config.limits,
    log: silent,
    boot_id,
    daemon,
    puller,
    modelAt,
  });
  const fleet =
    options.node &&
    new FleetRuns({
      store: options.node.store,
      kernel,
      scheduler,
      daemon,
      limits: config.limits,
      offers: () =>
        [...providers.settings().keys()].map((provider) => ({
          provider,
          models: provider === 'local' ? (options.node?.models ?? null) : null,
        })),
      fileOf: async () => options.node?.file ?? null,
      log: silent,
      takesRuns: () => (options.node?.time?.trouble ?? null) === null,
    });
  const closed: unknown[] = [];
  const servers = options.servers ?? new ScriptedServers({});
  const toolCalls = new ToolCalls({
    kernel,
    servers,
    judge: options.judge ?? judgeHere,
    limits: config.limits,
    log: silent,
  });
  kernel.handle({
    startAttempt: (params) => executor.start(params),
    stopAttempt: (params) => executor.stop(params),
    callTools: (params) => toolCalls.go(params),
    probeProvider: (params) => providers.handleProbe(params),
    startPull: (params) => puller.start(params),
    stopPull: (params) => puller.stop(params),
    closeDaemon: (params) => closed.push(params),
    startEngine() {},
    stopEngine() {},
    killEngine() {},
    startToolServer() {},
    stopToolServer() {},
    killToolServer() {},
  });
  const saved: [string, unknown][] = [];
  let choices: ModelChoices = { default: null, provider: null, aliases: {}, presets: {} };
  const runtime = createRuntime({
    mcp: {
      list: () => ({ servers: [], problem: null }),
      show: () => Promise.reject(new SvcError('mcp_unknown')),
      stop() {},
      allowAlways: () => Promise.reject(new Error('not here')),
    },
    kernel,
    store,
    config,
    providers,
    budget,
    scheduler,
    history,
    pulls,
    stopReports,
    streams,
    placement: fleet ?? new OneDaemon(kernel),
    servers,
    home: '/nonexistent',
    secret: 'the secret of this home',
    stored: () => ({ finished: 0, size_bytes: null, trouble: options.trouble?.() ?? null }),
    verified: () => null,
    saveProvider: async (id, settings) => void saved.push([id, settings]),
    saveChoices: async (edit) => {
      choices = edit(choices);
      return choices;
    },
    localModels: {
      show: () => Promise.reject(new SvcError('model_unknown')),
      check: () => Promise.resolve(),
      remove: () => Promise.reject(new Error('not here')),
      place: () => Promise.reject(new Error('not here')),
      default: 'svc-mini',
      loaded: () => ({ models: [LOADED], budget_bytes: 2, reserved_bytes: 1 }),
      load: async () => LOADED.id,
      unload: async () => LOADED.id,
      keep: async () => {},
      serverOf: () => null,
      loading: options.loading ?? (() => null),
    },
  });
  const propose = (event: NewEvent<DaemonEvent>) => kernel.tryAppend(daemon, event);
  await propose({
    type: 'daemon.listening',
    addresses: { http: 'http://127.0.0.1:1', grpc: null, socket: null },
  });
  await propose({ type: 'daemon.store_opened', last_boot: null });
  if (until !== 'opened')
    await propose({
      type: 'daemon.runs_recovered',
      ...(await recoverRuns(kernel, store, scheduler)),
    });
  if (until === 'ready') {
    await providers.open();
    await propose({ type: 'daemon.providers_probed' });
    scheduler.next();
    fleet?.start();
  }
  return {
    ...harness,
    fleet,
    runtime,
    providers,
    scheduler,
    executor,
    toolCalls,
    outputs,
    puller,
    pulls,
    mcp: { stopAll: () => Promise.resolve() },
    stopReports,
    streams,
    daemon,
    propose,
    closed,
    saved,
    config,
  };
}

/** The built-in model in memory. */
const LOADED: LoadedModel = {
  id: 'local/svc-mini',
  name: 'svc-mini',
  path: '/models/svc-mini.gguf',
  state: 'idle',
  state_path: 'warm.idle',
  since: 0,
  progress: null,
  runs: 0,
  memory_bytes: 1,
  pid: 1,
  threads: 1,
  context_length: 512,
  parallel: 4,
  load_ms: 1,
  purpose: 'answers',
  gpu: 'cpu',
  gpu_layers: 0,
  chat_template: 'file',
  attention: null,
  keep_ms: 1,
  expires_at: null,
  error: null,
};
