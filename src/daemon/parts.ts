import type { Logger } from 'pino';
import { isIn } from '../../machines/step.ts';
import { Notifier } from '../async/notifier.ts';
import type { Config } from '../config/config.ts';
import { saveModelChoices } from '../config/models-file.ts';
import { removeProvider, saveProvider } from '../config/providers/providers-file.ts';
import type { SvcError } from '../errors.ts';
import { hostBootId } from '../home/host.ts';
import type { Paths } from '../home/paths.ts';
import { strippingStore } from '../kernel/content.ts';
import { Kernel } from '../kernel/kernel.ts';
import { type DaemonKey, isRun, stream } from '../kernel/stream.ts';
import { createLog } from '../logs/log.ts';
import { DaemonHistory, StopReports } from '../observability/health/daemon-history.ts';
import { Verification } from '../observability/health/verification.ts';
import { logEvents } from '../observability/log-lines/log-lines.ts';
import type { ExporterOptions, TraceExporter } from '../observability/traces/exporter.ts';
import { traceRuns } from '../observability/traces/run-trace.ts';
import { createRuntime } from '../operations/create.ts';
import type { Log } from '../ports/log.ts';
import { DiskMonitor } from '../runtime/disk/disk-monitor.ts';
import { Retention } from '../runtime/disk/retention.ts';
import { newBootId } from '../runtime/runs/ids.ts';
import { projectEvent } from '../runtime/runs/record.ts';
import { LiveConfig } from './live-config.ts';
import { createSite } from './site.ts';
import { buildTransports } from './transports.ts';
import { buildWork } from './work.ts';

export interface PartsOptions {
  paths: Paths;
  config: Config;
  /** Reads the configuration again, with the flags of this daemon. Throws config_invalid. */
  reload(): Config;
  version: string;
  secrets: { token: string; digest: string };
  /** Problems of the home that did not prevent the start. */
  warnings: readonly string[];
  stdout: 'none' | 'json' | 'pretty';
  /** The boot before, in this process, lost its lease. */
  rejoins: boolean;
  /** The event log cannot be trusted any more. */
  onFatal(error: SvcError): void;
}

export type Parts = ReturnType<typeof buildParts>;

/**
 * Builds the parts in the order in which they need each other. Nothing is bound or opened yet, and
 * no effect has a handler.
 */
export function buildParts(options: PartsOptions) {
  const { paths, config, version, secrets, onFatal } = options;
  const { limits } = config;
  const boot_id = newBootId();
  const streams = { daemon: stream.daemon(boot_id) };
  const logging = createLog({
    folder: paths.logs,
    level: config.log_level,
    limits,
    boot_id,
    stdout: options.stdout,
    redact: config.history.redact,
  });
  const { log } = logging;
  const site = createSite({ paths, config, log, boot_id, version, onFatal });
  const { store, clock, size, place, isMine } = site;
  const verification = new Verification({ store, clock, limits, log, size, isMine });
  const kernel = new Kernel({
    store: strippingStore(store, config.history),
    place,
    clock,
    limits,
    boot_id,
    log,
    project: projectEvent,
    onFatal,
  });
  clock.resyncWhile?.(() => {
    const daemon = kernel.snapshot(streams.daemon);
    return daemon === undefined || isIn(daemon, 'ready');
  });
  logEvents(kernel, streams.daemon, log);
  logEachEvent(kernel, log);

  const diskMonitor = new DiskMonitor({ kernel, store, clock, log, daemon: streams.daemon });
  const retention = new Retention({
    kernel,
    store,
    daemon: streams.daemon,
    boot_id,
    keep: config.history,
    limits,
    log,
  });
  recordBoot(kernel, streams.daemon, { boot_id, version, config, log });
  const history = new DaemonHistory(kernel, streams.daemon);
  const stopReports = new StopReports(kernel, streams.daemon);
  const work = buildWork({ paths, config, kernel, store, clock, log, boot_id, streams, version });
  const membership = site.membership({
    kernel,
    daemon: streams.daemon,
    scheduler: work.scheduler,
    providers: work.providers,
    identify: (model) => work.local.identify(model),
  });

  /** Finished runs that the store had when it was opened. */
  const stored = { finished: 0 };
  /** Notified of each request to stop, with its deadline. */
  const stopRequests = new Notifier<number>();
  const runtime = createRuntime({
    kernel,
    store,
    config,
    providers: work.providers,
    budget: work.budget,
    scheduler: work.scheduler,
    placement: membership.runs,
    place,
    history,
    pulls: work.pulls,
    mcp: work.mcp,
    stopReports,
    streams,
    home: paths.home,
    stored: () => ({
      finished: stored.finished - retention.unrecorded,
      size_bytes: size(),
      trouble: retention.trouble,
    }),
    verified: () => verification.report,
    secret: secrets.digest,
    onStop: (close_deadline_at) => stopRequests.notify(close_deadline_at),
    saveProvider: (id, settings) =>
      settings === null
        ? removeProvider(paths.config, id)
        : saveProvider(paths.config, id, settings),
    localModels: work.local.models,
    servers: work.mcp,
    saveChoices: (edit) => saveModelChoices(paths.config, edit),
  });
  const traces = startTraces(kernel, {
    endpoint: config.otlp_endpoint ?? (process.env.OTEL_EXPORTER_OTLP_ENDPOINT || null),
    version,
    boot_id,
    log,
  });
  const live = new LiveConfig({
    config,
    reload: options.reload,
    onChange: (key) => {
      if (key === 'log_level') log.level = config.log_level;
      if (key === 'model') work.local.models.default = config.model;
      log.info({}, `${key} changed: it counts now`);
    },
  });
  const transports = buildTransports({
    paths,
    config,
    logging,
    runtime,
    live,
    token: secrets.token,
    warnings: () => [...options.warnings, ...leftOutWarnings(work.mcp.fileProblem)],
  });

  return {
    paths,
    config,
    version,
    rejoins: options.rejoins,
    boot_id,
    streams,
    log,
    closeLog: logging.close,
    clock,
    store,
    stored,
    verification,
    kernel,
    diskMonitor,
    retention,
    stopReports,
    stopRequests,
    runtime,
    membership,
    traces,
    ...work,
    ...transports,
  };
}

/** A damaged mcp.json. */
function leftOutWarnings(problem: string | null): string[] {
  return problem === null ? [] : [`The tool servers are left out: ${problem} See: svc doctor`];
}

/** Appends the first event of the boot. It is committed when the store is open. */
function recordBoot(
  kernel: Kernel,
  daemon: DaemonKey,
  {
    boot_id,
    version,
    config,
    log,
  }: Pick<PartsOptions, 'version' | 'config'> & { boot_id: string; log: Log },
): void {
  const event = {
    type: 'daemon.boot_started',
    boot_id,
    host_boot_id: hostBootId(),
    pid: process.pid,
    version,
    capacity: config.limits.queue_runs,
    start_deadline_at: kernel.clock.now() + config.limits.start_ms,
    counts_runs: true,
  } as const;
  kernel
    .append([{ stream: daemon, event }])
    .catch((error: unknown) => log.debug({ err: error }, 'the start was not recorded'));
}

/** Each event, for a closer look. */
function logEachEvent(kernel: Kernel, log: Logger): void {
  kernel.subscribe('all', ({ seq, stream: key, type }) => {
    // A line that is not written must cost nothing: there is one for each piece of output.
    const level = type === 'run.output_appended' ? 'trace' : 'debug';
    if (log.isLevelEnabled(level))
      log[level]({ seq, stream: key, ...(isRun(key) ? { run_id: key } : {}) }, type);
  });
}

/**
 * Sends a trace of each run to the collector. Without an endpoint nothing is heard or loaded. No
 * part of the daemon waits for it.
 */
export function startTraces(
  kernel: Kernel,
  { endpoint, ...options }: Omit<ExporterOptions, 'endpoint'> & { endpoint: string | null },
): { close(): Promise<void> } {
  if (endpoint === null) return { close: async () => {} };
  const loading: Promise<TraceExporter | null> = import('../observability/traces/exporter.ts').then(
    ({ createExporter }) => createExporter({ endpoint, ...options }),
  );
  const loaded = loading.catch((error: unknown) => {
    options.log.warn({ err: error }, 'traces are not sent: the exporter could not be made');
    return null;
  });
  traceRuns(kernel, (run) => {
    loaded
      .then((exporter) => exporter?.add(run))
      .catch((error: unknown) => options.log.debug({ err: error }, 'a trace was dropped'));
  });
  return { close: async () => (await loaded)?.close().catch(() => {}) };
}
