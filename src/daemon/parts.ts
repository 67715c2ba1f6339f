import type { DaemonSnapshot } from '../../machines/daemon.ts';
import type { Effects } from '../../machines/effects.ts';
import type { DaemonEvent, NewEvent } from '../../machines/events.ts';
import { isIn } from '../../machines/step.ts';
import type { Config } from '../config/config.ts';
import { removeProvider, saveProvider } from '../config/providers-file.ts';
import type { SvcError } from '../errors.ts';
import type { Paths } from '../home/paths.ts';
import { systemClock } from '../kernel/clock.ts';
import { strippingStore } from '../kernel/content.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { EffectHandlers } from '../kernel/port.ts';
import { streamPort } from '../kernel/stream-port.ts';
import { createLog } from '../logs/log.ts';
import { Puller } from '../models/puller.ts';
import { createLocalProvider } from '../providers/local/provider.ts';
import { createRemoteProvider } from '../providers/openai/provider.ts';
import { createRuntime } from '../runtime/create.ts';
import { DiskMonitor } from '../runtime/disk/disk-monitor.ts';
import { Retention } from '../runtime/disk/retention.ts';
import { DaemonHistory } from '../runtime/health/daemon-history.ts';
import { StopReports } from '../runtime/health/stop-report.ts';
import { Providers } from '../runtime/providers/providers.ts';
import { Pulls } from '../runtime/pulls/pulls.ts';
import { RunExecutor } from '../runtime/runs/executor.ts';
import { newBootId } from '../runtime/runs/ids.ts';
import { Scheduler } from '../runtime/runs/scheduler.ts';
import { UnsentBytes } from '../runtime/send/unsent-bytes.ts';
import { buildSignIn } from '../transport/auth/sign-in.ts';
import { createHandlers } from '../transport/control/handlers.ts';
import { ControlServer } from '../transport/control/server.ts';
import { createGrpc } from '../transport/grpc/server.ts';
import { createHttp } from '../transport/http/server.ts';
import { attachSockets } from '../transport/ws/upgrade.ts';
import { createEventStore } from './event-store.ts';
import { hostBootId } from './host.ts';

/** What is decided before the first part is built. */
export interface Given {
  paths: Paths;
  config: Config;
  version: string;
  secrets: { token: string; digest: string };
  stdout: 'none' | 'json' | 'pretty';
  closeDaemon(params: Effects['closeDaemon']): void;
  onStop(close_deadline_at: number): void;
  onFatal(error: SvcError): void;
}

export type Parts = ReturnType<typeof buildParts>;

/** Builds every part and introduces them to each other. Nothing is started, bound or opened yet. */
export function buildParts({
  paths,
  config,
  version,
  secrets,
  stdout,
  closeDaemon,
  onStop,
  onFatal,
}: Given) {
  const { limits } = config;
  const boot_id = newBootId();
  const streams = { daemon: `daemon:${boot_id}`, engine: `engine:${boot_id}` };
  const logging = createLog({
    folder: paths.logs,
    level: config.log_level,
    limits,
    boot_id,
    stdout,
    redact: config.history.redact,
  });
  const { log } = logging;
  for (const { was, key } of config.renamed)
    log.warn({ was, key }, 'A setting has a new name. The old name still works.');
  const clock = systemClock(() => {
    const daemon = kernel.snapshot<DaemonSnapshot>(streams.daemon);
    return daemon !== undefined && !isIn(daemon, 'ready');
  });
  const { store, size, verification } = createEventStore({ paths, limits, clock, log, onFatal });

  const kernel = new Kernel({
    store: strippingStore(store, config.history),
    clock,
    limits,
    boot_id,
    log,
    perform: (effect) => (handlers[effect.type] as (params: unknown) => void)(effect.params),
    onSpace: (full) => full && diskMonitor.filled(),
    onFatal,
  });
  const tell = (told: NewEvent<DaemonEvent>) => kernel.tryAppend(streams.daemon, told);
  const diskMonitor = new DiskMonitor({ store, clock, log, tell });
  const retention = new Retention({
    kernel,
    store,
    daemon: streams.daemon,
    boot_id,
    keep: config.history,
    limits,
    log,
  });
  kernel.stalls.onStall((cause) => diskMonitor.stalled(cause));
  kernel.stalls.onResume(() => diskMonitor.resumed());
  const start = {
    pid: process.pid,
    version,
    capacity: limits.queue_runs,
    start_deadline_at: clock.now() + limits.start_ms,
  };
  const fact = {
    type: 'daemon.boot_started',
    boot_id,
    host_boot_id: hostBootId(),
    ...start,
  } as const;
  kernel
    .append([{ stream: streams.daemon, fact }])
    .catch((error: unknown) => log.debug({ err: error }, 'the start was not recorded'));
  const history = new DaemonHistory(kernel, streams.daemon);
  const stopReports = new StopReports(kernel, streams.daemon);
  const scheduler = new Scheduler({
    kernel,
    daemon: streams.daemon,
    places: {
      total: limits.active_runs,
      perProvider: limits.provider_runs,
      local: limits.local_runs,
      ofProvider: (id) => providers.config(id)?.max_runs ?? undefined,
    },
    hasRoom: () => executor.hasRoom,
    log,
  });

  const local = createLocalProvider({
    engine: streamPort(kernel, streams.engine),
    models: paths.models,
    cache: paths.cache,
    limits,
    model: config.model,
    threads: config.engine_threads,
    together: config.engine_batching,
    log,
  });
  const providers = new Providers({
    kernel,
    boot_id,
    config,
    env: process.env,
    log,
    local: local.provider,
    remote: (id, settings) =>
      createRemoteProvider({ id, config: settings, env: process.env, limits }),
  });
  const executor = new RunExecutor({
    kernel,
    store,
    limits,
    log,
    provider: (request) => providers.portFor(request),
    onOutcome: (id, failure) => providers.noteOutcome(id, failure),
    onRoom: () => scheduler.next(),
  });
  const puller = new Puller({
    folder: paths.models,
    env: process.env,
    limits,
    log,
    host_boot_id: hostBootId(),
    stream: (id) => streamPort(kernel, `pull:${id}:${boot_id}`),
    now: () => clock.now(),
  });
  const modelAt = async (path: string) =>
    (await local.provider.models(AbortSignal.timeout(limits.pull_idle_ms))).find(
      (model) => model.path === path,
    ) ?? null;
  const pulls = new Pulls({
    kernel,
    limits,
    log,
    boot_id,
    daemon: streams.daemon,
    puller,
    modelAt,
  });
  const handlers: EffectHandlers = {
    startAttempt: (params) => executor.start(params),
    stopAttempt: (params) => executor.stop(params),
    probeProvider: (params) => providers.perform(params),
    startPull: (params) => puller.start(params),
    stopPull: (params) => puller.stop(params),
    ...local.handlers,
    closeDaemon,
  };

  /** What the store held when it was opened. */
  const stored = { finished: 0 };
  kernel.onFact((event, snapshot) => {
    if (event.type === 'engine.exited' && isIn(snapshot, 'crashed'))
      log.warn({ ...event.data, seq: event.seq }, 'the engine process died');
    log.debug(
      {
        seq: event.seq,
        stream: event.stream,
        ...(event.stream.startsWith('run_') ? { run_id: event.stream } : {}),
      },
      event.type,
    );
  });
  const runtime = createRuntime({
    kernel,
    store,
    config,
    providers,
    scheduler,
    history,
    pulls,
    stopReports,
    streams,
    home: paths.home,
    stored: () => ({ ...stored, size_bytes: size(), trouble: retention.trouble }),
    verified: () => verification.report,
    secret: secrets.digest,
    onStop,
    saveProvider: (id, settings) =>
      settings === null
        ? removeProvider(paths.config, id)
        : saveProvider(paths.config, id, settings),
    localModels: local.models,
  });

  const signIn = buildSignIn(paths, config, secrets.token);
  const unsent = new UnsentBytes(limits, log);
  const http = createHttp({
    ...signIn.access,
    sessions: signIn.sessions,
    runtime,
    unsent,
    limits,
    log,
  });
  const sockets = attachSockets(http, {
    ...signIn.access,
    runtime,
    hub: logging.hub,
    folder: paths.logs,
    unsent,
    limits,
    log,
  });
  const grpc = createGrpc({ runtime, limits, log });
  const control = new ControlServer({
    socket: paths.socket,
    handlers: createHandlers({
      ...signIn.methods,
      runtime,
      limits,
      config: () => config,
      warning: () => http.warning(),
    }),
    http: (socket) => {
      signIn.admit(socket);
      http.server.emit('connection', socket);
    },
    limits,
    log,
    unsent,
  });

  return {
    ...{
      paths,
      config,
      version,
      boot_id,
      streams,
      log,
      closeLog: logging.close,
      clock,
      store,
      stored,
      diskMonitor,
      retention,
      verification,
      kernel,
      scheduler,
      stopReports,
      providers,
      puller,
      pulls,
      local,
      runtime,
      http,
      sockets,
      grpc,
      control,
    },
    /** Records a fact of the daemon; false when its machine does not accept it. */
    tell,
  };
}
