import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { Effect, Effects } from '../../machines/effects.ts';
import type { NewEvent } from '../../machines/events.ts';
import { isIn } from '../../machines/step.ts';
import { Notifier } from '../../src/async/notifier.ts';
import { endBlockedStop } from '../../src/daemon/boot.ts';
import { releaseAll } from '../../src/daemon/stop.ts';
import { Kernel, type KernelOptions } from '../../src/kernel/kernel.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { type DaemonKey, stream } from '../../src/kernel/stream.ts';
import { DaemonHistory, StopReports } from '../../src/observability/health/daemon-history.ts';
import { createRuntime } from '../../src/operations/create.ts';
import type { Runtime } from '../../src/operations/port.ts';
import type { ToolServers } from '../../src/ports/tools.ts';
import { DiskMonitor } from '../../src/runtime/disk/disk-monitor.ts';
import { OneDaemon } from '../../src/runtime/placement.ts';
import type { Providers } from '../../src/runtime/providers/providers.ts';
import type { Pulls } from '../../src/runtime/pulls/pulls.ts';
import { RunExecutor, type RunExecutorOptions } from '../../src/runtime/runs/executor.ts';
import { OutputBudget } from '../../src/runtime/runs/output-recorder.ts';
import { projectEvent } from '../../src/runtime/runs/record.ts';
import { readLastBoot, recoverRuns } from '../../src/runtime/runs/recover.ts';
import { Scheduler, type SchedulerOptions } from '../../src/runtime/runs/scheduler.ts';
import { Budget } from '../../src/runtime/spending/budget.ts';
import { ToolCalls } from '../../src/runtime/tools/tool-calls.ts';
import { bootStarted } from '../helpers/boot-event.ts';
import { judgeHere } from '../helpers/judge-here.ts';
import { everyEffect, silent } from '../helpers/kernel.ts';
import type { SimClock } from './clock.ts';
import type { Settings } from './settings.ts';
import type { Upstream } from './upstream.ts';

/**
 * One boot of the daemon. Only sockets, process, disk, clock and providers are simulated.
 * It does the work of startDaemon and serveDaemon in the same order.
 */

export type Ending = 'stopped' | 'failed' | 'crashed';

export interface LifeOptions {
  number: number;
  clock: SimClock;
  settings: Settings;
  upstreams: ReadonlyMap<string, Upstream>;
  /** The disk during this boot. */
  connect(alive: () => boolean): EventStore;
  /** An effect was requested. `perform` does it; otherwise it is lost. */
  onEffect(effect: Effect, id: string, perform: () => void): void;
  onOpened(last_seq: number): void;
  createKernel?: ((options: KernelOptions) => Kernel) | undefined;
  places: SchedulerOptions['concurrency'];
  servers: ToolServers;
  enter: RunExecutorOptions['enter'];
  /** From 0 to 1, for the jitter of waits. */
  random: () => number;
}

export class Life {
  readonly daemon: DaemonKey;
  readonly clock: SimClock;
  readonly kernel: Kernel;
  readonly scheduler: Scheduler;
  readonly runtime: Runtime;
  /** Set when this boot is over. */
  ending: Ending | null = null;
  /** The log can no longer be written. */
  isFatal = false;
  private readonly options: LifeOptions;
  private readonly store: EventStore;
  private readonly diskMonitor: DiskMonitor;
  private readonly stopReports: StopReports;
  private readonly toolCalls: ToolCalls;
  private starting: Promise<void> = Promise.resolve();

  constructor(options: LifeOptions) {
    const { clock, settings, upstreams, number } = options;
    const { config } = settings;
    this.options = options;
    this.clock = clock;
    const boot_id = `boot_${number}`;
    this.daemon = stream.daemon(boot_id);
    this.store = options.connect(() => this.ending === null);
    const { store } = this;
    const kernelOptions: KernelOptions = {
      store,
      clock,
      boot_id,
      limits: config.limits,
      log: silent,
      project: projectEvent,
      onFatal: () => {
        this.isFatal = true;
      },
    };
    const kernel = options.createKernel?.(kernelOptions) ?? new Kernel(kernelOptions);
    this.kernel = kernel;
    this.diskMonitor = new DiskMonitor({ kernel, store, clock, daemon: this.daemon, log: silent });
    this.boot(boot_id);
    const history = new DaemonHistory(kernel, this.daemon);
    this.stopReports = new StopReports(kernel, this.daemon);
    const outputs = new OutputBudget(config.limits.answers_bytes);
    this.scheduler = new Scheduler({
      kernel,
      outputs,
      daemon: this.daemon,
      concurrency: options.places,
      log: silent,
    });
    const budget = new Budget({ kernel, store, config });
    const executor = new RunExecutor({
      judge: judgeHere,
      kernel,
      store,
      limits: config.limits,
      log: silent,
      outputs,
      provider: ({ provider }) => upstreams.get(provider),
      refusal: (context) => budget.enter(context),
      enter: options.enter,
      random: options.random,
      retryAt: () => null,
      onOutcome() {},
    });
    const { servers } = options;
    this.toolCalls = new ToolCalls({
      kernel,
      servers,
      judge: judgeHere,
      limits: config.limits,
      log: silent,
    });
    const handlers: Record<string, (params: never) => void> = {
      startAttempt: (params) => executor.start(params),
      stopAttempt: (params) => executor.stop(params),
      callTools: (params) => this.toolCalls.go(params),
      closeDaemon: (params) => this.close(params),
    };
    kernel.handle(
      everyEffect((effect, id) =>
        options.onEffect(effect, id, () => handlers[effect.type]?.(effect.params as never)),
      ),
    );
    const providers = {
      ids: () => ['local', ...Object.keys(config.providers)],
      config: (id: string) => config.providers[id] ?? null,
      settings: () => new Map([['local', null], ...Object.entries(config.providers)]),
      portFor: () => undefined,
      listed: () => null,
      list: () => [],
    };
    const stopRequests = new Notifier<number>();
    this.runtime = createRuntime({
      mcp: {
        list: () => ({ servers: [], problem: null }),
        show: () => Promise.reject(new Error('not here')),
        stop() {},
        allowAlways: () => Promise.reject(new Error('not here')),
      },
      kernel,
      store,
      config,
      scheduler: this.scheduler,
      history,
      stopReports: this.stopReports,
      placement: new OneDaemon(kernel),
      servers,
      providers: providers as unknown as Providers,
      budget,
      pulls: {} as Pulls,
      streams: { daemon: this.daemon },
      home: '',
      secret: '',
      stored: () => ({ finished: 0, size_bytes: null }),
      verified: () => null,
      onStop: (close_deadline_at) => {
        this.endBy(close_deadline_at);
        stopRequests.notify(close_deadline_at);
      },
      saveProvider: () => Promise.resolve(),
      saveChoices: () => Promise.reject(new Error('none')),
      localModels: {
        show: () => Promise.reject(new Error('none')),
        check: () => Promise.reject(new Error('none')),
        remove: () => Promise.reject(new Error('none')),
        place: () => Promise.reject(new Error('none')),
        default: 'svc-mini',
        loaded: () => ({ models: [], budget_bytes: 1, reserved_bytes: 0 }),
        load: () => Promise.reject(new Error('none')),
        unload: () => Promise.reject(new Error('none')),
        keep: async () => {},
        serverOf: () => null,
        loading: () => null,
      },
    });
    endBlockedStop(
      {
        kernel,
        clock,
        store,
        config,
        log: silent as never,
        streams: { daemon: this.daemon },
        stopReports: this.stopReports,
        stopRequests,
      },
      (failure) => this.end(failure === null ? 'stopped' : 'failed'),
      new AbortController().signal,
    );
    kernel.subscribe({ stream: this.daemon }, (_, snapshot) => {
      if (snapshot.status !== 'done') return;
      const ending = isIn(snapshot, 'stopped') ? 'stopped' : 'failed';
      queueMicrotask(() => this.end(ending));
    });
  }

  start(): void {
    this.starting = this.startUp().catch((error: unknown) => {
      if (error !== STOPPED) this.end('failed');
    });
  }

  end(ending: Ending): void {
    this.ending ??= ending;
    this.kernel.close();
    this.diskMonitor.close();
  }

  /** The machine, folded from the log. */
  get snapshot(): DaemonSnapshot {
    return this.kernel.snapshot(this.daemon) as DaemonSnapshot;
  }

  private boot(boot_id: string): void {
    const { config } = this.options.settings;
    const start_deadline_at = this.clock.now() + config.limits.start_ms;
    const event = bootStarted(boot_id, config.limits.queue_runs, start_deadline_at);
    this.kernel.append([{ stream: this.daemon, event }]).catch(() => {});
    this.endBy(start_deadline_at, () => isIn(this.snapshot, 'starting'));
  }

  private async startUp(): Promise<void> {
    const { kernel, store, scheduler, options } = this;
    const addresses = { http: 'http://127.0.0.1:1', grpc: null, socket: null };
    const listening = this.propose({ type: 'daemon.listening', addresses });
    const opened = await store.open();
    options.onOpened(opened.last_seq);
    await store.countRuns();
    const last_boot = await readLastBoot(store, opened.last_boot_id, 'host');
    kernel.open(opened.last_seq);
    await listening;
    await this.proceed({ type: 'daemon.store_opened', last_boot });
    await this.proceed({ type: 'daemon.listening', addresses });
    const { recover_runs } = options.settings.config.limits;
    const progress = {
      step_runs: recover_runs,
      made: (runs: number) => this.proceed({ type: 'daemon.recovery_progressed', runs }),
    };
    await this.proceed({
      type: 'daemon.runs_recovered',
      ...(await recoverRuns(kernel, store, scheduler, progress)),
    });
    await this.proceed({ type: 'daemon.providers_probed' });
    scheduler.next();
    this.diskMonitor.onReady();
  }

  private propose(event: NewEvent<DaemonEvent>): Promise<boolean> {
    return this.kernel.tryAppend(this.daemon, event);
  }

  private async proceed(event: NewEvent<DaemonEvent>): Promise<void> {
    if (!(await this.propose(event))) throw STOPPED;
  }

  private close(_params: Effects['closeDaemon']): void {
    const { kernel, store, scheduler, stopReports, daemon } = this;
    const held = {
      kernel,
      store,
      scheduler,
      stopReports,
      pulls: { close: () => Promise.resolve() } as Pulls,
      mcp: { stopAll: () => Promise.resolve() },
      toolCalls: this.toolCalls,
      streams: { daemon },
    };
    this.starting.then(() => releaseAll(held)).catch(() => this.end('failed'));
  }

  /** It ends even if the log accepts no event about it. */
  private endBy(at: number, still: () => boolean = () => true): void {
    this.clock.after(at + SLACK_MS - this.clock.now(), () => still() && this.end('failed'));
  }
}

const STOPPED = Symbol('stopped');
const SLACK_MS = 500;
