import type { Effect } from '../../machines/effects.ts';
import type { RunRequest } from '../../src/contract/messages/parts.ts';
import type { SvcError } from '../../src/errors.ts';
import { Kernel } from '../../src/kernel/kernel.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { type Proposal, stream } from '../../src/kernel/stream.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import type { EffectHandlers, Log } from '../../src/ports/log.ts';
import { projectEvent } from '../../src/runtime/runs/record.ts';
import { type Asking, asking } from './asking.ts';
import { type ManualClock, manualClock } from './manual-clock.ts';
import { createMemoryStore } from './store/memory.ts';

export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

export interface KernelHarness {
  kernel: Kernel;
  store: EventStore;
  clock: ManualClock;
  effects: { effect: Effect; id: string }[];
  fatal: SvcError[];
}

/**
 * A kernel over a memory store, with a clock that the test moves. It is open unless `open` is
 * false.
 */
export async function bootKernel(
  options: {
    store?: EventStore;
    limits?: Partial<Limits>;
    open?: boolean;
    perform?: (effect: Effect) => void;
    clock?: ManualClock;
    boot_id?: string;
  } = {},
): Promise<KernelHarness> {
  const store = options.store ?? createMemoryStore();
  const clock = options.clock ?? manualClock(1_000_000);
  const effects: KernelHarness['effects'] = [];
  const fatal: SvcError[] = [];
  const kernel = new Kernel({
    store,
    clock,
    limits: { ...defaultLimits, ...options.limits },
    boot_id: options.boot_id ?? 'boot_1',
    log: silent,
    project: projectEvent,
    onFatal: (error) => fatal.push(error),
  });
  kernel.handle(
    everyEffect((effect, id) => {
      effects.push({ effect, id });
      options.perform?.(effect);
    }),
  );
  if (options.open !== false) kernel.open((await store.open()).last_seq);
  return { kernel, store, clock, effects, fatal };
}

/** Handlers that pass every effect on. */
export function everyEffect(perform: (effect: Effect, id: string) => void): EffectHandlers {
  return new Proxy({} as EffectHandlers, {
    get: (_, type) => (params: unknown, id: string) => perform({ type, params } as Effect, id),
  });
}

export function request(changes: Asking = {}): RunRequest {
  return asking({
    provider: 'scripted',
    model: 'm',
    cloud: false,
    prompt: 'hello',
    max_tokens: null,
    temperature: null,
    seed: 1,
    seed_asked: false,
    ...changes,
  });
}

/** The event that creates a run, with deadlines counted from `now`. */
export function accepted(
  run_id: string,
  now: number,
  changes: Record<string, unknown> = {},
): Proposal {
  return {
    stream: stream.run(run_id),
    event: {
      type: 'run.accepted',
      run_id,
      request: request(),
      idempotency_key: null,
      client: 'test',
      max_attempts: 3,
      queue_deadline_at: now + 10_000,
      deadline_at: now + 60_000,
      first_output_ms: 5_000,
      idle_ms: 2_000,
      cancel_grace_ms: 1_000,
      ...changes,
    },
  };
}

/** Wraps a store so that the test completes or fails each append. */
export function gatedStore(
  inner: EventStore,
): EventStore & {
  appends: number[];
  hold(): void;
  release(): void;
  failWith(error: Error | null): void;
} {
  let waitingAppends: (() => void)[] | null = null;
  let failure: Error | null = null;
  const appends: number[] = [];
  return {
    open: () => inner.open(),
    readStream: (...args) => inner.readStream(...args),
    lastEvent: (...args) => inner.lastEvent(...args),
    readAll: (...args) => inner.readAll(...args),
    listRuns: (query) => inner.listRuns(query),
    reserve: () => inner.reserve(),
    spendReserve: () => inner.spendReserve(),
    askerOf: (id) => inner.askerOf(id),
    getRun: (...args) => inner.getRun(...args),
    readRecord: (id) => inner.readRecord(id),
    runHead: (id) => inner.runHead(id),
    conversationUsage: (id) => inner.conversationUsage(id),
    getRunByKey: (key) => inner.getRunByKey(key),
    searchRuns: (query) => inner.searchRuns(query),
    runsNamed: (...args) => inner.runsNamed(...args),
    lastRun: (origin) => inner.lastRun(origin),
    runsAt: (...args) => inner.runsAt(...args),
    runBounds: (...args) => inner.runBounds(...args),
    startedStreams: (...args) => inner.startedStreams(...args),
    unfinishedRuns: (state) => inner.unfinishedRuns(state),
    countRuns: () => inner.countRuns(),
    usage: (query) => inner.usage(query),
    prune: (query) => inner.prune(query),
    removeRun: (id) => inner.removeRun(id),
    verify: () => inner.verify(),
    verifyPart: (...args) => inner.verifyPart(...args),
    verified: () => inner.verified(),
    close: () => inner.close(),
    appends,
    hold: () => {
      waitingAppends ??= [];
    },
    release: () => {
      const waiting = waitingAppends ?? [];
      waitingAppends = null;
      for (const resolve of waiting) resolve();
    },
    failWith: (error) => {
      failure = error;
    },
    append: async (commit) => {
      appends.push(commit.events.length);
      if (waitingAppends !== null)
        await new Promise<void>((resolve) => waitingAppends?.push(resolve));
      if (failure !== null) throw failure;
      return inner.append(commit);
    },
  };
}
