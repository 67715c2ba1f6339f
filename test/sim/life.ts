import type { DaemonSnapshot } from '../../machines/daemon.ts';
import type { Effect, Effects } from '../../machines/effects.ts';
import type { DaemonEvent, Undated } from '../../machines/events.ts';
import { endBlockedStop } from '../../src/daemon/blocked-stop.ts';
import { releaseAll } from '../../src/daemon/stop.ts';
import { Kernel, type KernelOptions } from '../../src/kernel/kernel.ts';
import type { Performers } from '../../src/kernel/port.ts';
import type { Runtime } from '../../src/runtime/contract.ts';
import { createRuntime } from '../../src/runtime/create.ts';
import { Space } from '../../src/runtime/disk/disk-monitor.ts';
import { DaemonHistory } from '../../src/runtime/health/daemon-history.ts';
import { StopReports } from '../../src/runtime/health/stop-report.ts';
import type { Providers } from '../../src/runtime/providers/providers.ts';
import type { Pulls } from '../../src/runtime/pulls/pulls.ts';
import { Attempts } from '../../src/runtime/runs/executor.ts';
import { readLastBoot, recoverRuns } from '../../src/runtime/runs/recover.ts';
import { Dispatch, type DispatchOptions } from '../../src/runtime/runs/scheduler.ts';
import type { EventStore } from '../../src/store/port.ts';
import { bootStarted } from '../helpers/boot-fact.ts';
import { silent } from '../helpers/kernel.ts';
import type { SimClock } from './clock.ts';
import type { Settings } from './settings.ts';
import type { Upstream } from './upstream.ts';

/**
 * One life of the daemon: everything real but its sockets, its process, its disk, its clock and its providers. What startDaemon and
 * serveDaemon do around them is done here in the same order.
 */

export type Ending = 'stopped' | 'failed' | 'crashed';

export interface LifeOptions {
  number: number;
  clock: SimClock;
  settings: Settings;
  upstreams: ReadonlyMap<string, Upstream>;
  /** The disk, for as long as this life lives. */
  connect(alive: () => boolean): EventStore;
  /** An effect is asked for; it is performed by calling `perform`, or it is lost. */
  onEffect(effect: Effect, id: string, perform: () => void): void;
  onOpened(last_seq: number): void;
  createKernel?: ((options: KernelOptions) => Kernel) | undefined;
  places: DispatchOptions['places'];
}

export class Life {
  readonly daemon: string;
  readonly clock: SimClock;
  readonly kernel: Kernel;
  readonly dispatch: Dispatch;
  readonly runtime: Runtime;
  /** Set once this life is over. */
  ending: Ending | null = null;
  /** The log cannot be written any more. */
  isFatal = false;
  private readonly options: LifeOptions;
  private readonly store: EventStore;
  private readonly space: Space;
  private readonly stopReports: StopReports;
  private starting: Promise<void> = Promise.resolve();

  constructor(options: LifeOptions) {
    const { clock, settings, upstreams, number } = options;
    const { config } = settings;
    this.options = options;
    this.clock = clock;
    const boot_id = `boot_${number}`;
    this.daemon = `daemon:${boot_id}`;
    this.store = options.connect(() => this.ending === null);
    const { store } = this;
    const kernelOptions: KernelOptions = {
      ...{ store, clock, boot_id, limits: config.limits, log: silent },
      perform: (effect, id) =>
        options.onEffect(effect, id, () =>
          (performers[effect.type] as (params: unknown) => void)(effect.params),
        ),
      onSpace: (full) => full && this.space.filled(),
      onFatal: () => {
        this.isFatal = true;
      },
    };
    const kernel = options.createKernel?.(kernelOptions) ?? new Kernel(kernelOptions);
    this.kernel = kernel;
    this.space = new Space({ store, clock, log: silent, tell: (fact) => this.tell(fact) });
    kernel.stalls.onStall((cause) => this.space.stalled(cause));
    kernel.stalls.onResume(() => this.space.resumed());
    this.boot(boot_id);
    const history = new DaemonHistory(kernel, this.daemon);
    this.stopReports = new StopReports(kernel, this.daemon);
    this.dispatch = new Dispatch({
      kernel,
      daemon: this.daemon,
      places: options.places,
      log: silent,
    });
    const attempts = new Attempts({
      ...{ kernel, store, limits: config.limits, log: silent },
      provider: ({ provider }) => upstreams.get(provider),
      onOutcome() {},
    });
    const performers: Partial<Performers> = {
      startAttempt: (params) => attempts.start(params),
      stopAttempt: (params) => attempts.stop(params),
      closeDaemon: (params) => this.close(params),
    };
    const providers = {
      ids: () => ['local', ...Object.keys(config.providers)],
      config: (id: string) => config.providers[id] ?? null,
      list: () => [],
    };
    this.runtime = createRuntime({
      ...{ kernel, store, config, dispatch: this.dispatch, history, stopReports: this.stopReports },
      providers: providers as unknown as Providers,
      pulls: {} as Pulls,
      streams: { daemon: this.daemon, engine: `engine:${boot_id}` },
      home: '',
      secret: '',
      stored: () => ({ finished: 0, size_bytes: null }),
      verified: () => null,
      onStop: (close_deadline_at) => {
        this.endBy(close_deadline_at);
        queueMicrotask(blocked.check);
      },
      saveProvider: () => Promise.resolve(),
      localModels: {
        show: () => Promise.reject(new Error('none')),
        remove: () => Promise.reject(new Error('none')),
      },
    });
    const blocked = endBlockedStop(
      {
        kernel,
        clock,
        store,
        config,
        log: silent as never,
        streams: { daemon: this.daemon, engine: '' },
        stopReports: this.stopReports,
      },
      (failure) => this.end(failure === null ? 'stopped' : 'failed'),
    );
    kernel.onFact((event, snapshot) => {
      if (event.stream !== this.daemon || snapshot.status !== 'done') return;
      const ending = snapshot.matches('stopped' as never) ? 'stopped' : 'failed';
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
    this.space.close();
  }

  /** The machine as the log tells it. */
  get snapshot(): DaemonSnapshot {
    return this.kernel.snapshot<DaemonSnapshot>(this.daemon) as DaemonSnapshot;
  }

  private boot(boot_id: string): void {
    const { config } = this.options.settings;
    const start_deadline_at = this.clock.now() + config.limits.start_ms;
    const fact = bootStarted(boot_id, config.limits.queue_runs, start_deadline_at);
    this.kernel.propose([{ stream: this.daemon, fact }]).catch(() => {});
    this.endBy(start_deadline_at, () => this.snapshot.matches('starting'));
  }

  private async startUp(): Promise<void> {
    const { kernel, store, dispatch, options } = this;
    const addresses = { http: 'http://127.0.0.1:1', grpc: null, socket: null };
    const listening = this.tell({ type: 'daemon.listening', addresses });
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
      ...(await recoverRuns(kernel, store, dispatch, progress)),
    });
    await this.proceed({ type: 'daemon.providers_probed' });
    dispatch.next();
    this.space.started();
  }

  private tell(fact: Undated<DaemonEvent>): Promise<boolean> {
    return this.kernel.submit(this.daemon, fact);
  }

  private async proceed(fact: Undated<DaemonEvent>): Promise<void> {
    if (!(await this.tell(fact))) throw STOPPED;
  }

  private close(_params: Effects['closeDaemon']): void {
    const { kernel, store, dispatch, stopReports, daemon } = this;
    const held = {
      kernel,
      store,
      dispatch,
      stopReports,
      pulls: { close: () => Promise.resolve() } as Pulls,
      streams: { daemon, engine: 'engine:none' },
    };
    this.starting
      .then(() => releaseAll({ ...held, tell: (fact) => this.tell(fact) }))
      .catch(() => this.end('failed'));
  }

  /** The end comes even if the log takes no fact that says so. */
  private endBy(at: number, still: () => boolean = () => true): void {
    this.clock.after(at + SLACK_MS - this.clock.now(), () => still() && this.end('failed'));
  }
}

const STOPPED = Symbol('stopped');
const SLACK_MS = 500;
