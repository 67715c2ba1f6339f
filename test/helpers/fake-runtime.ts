import { type DaemonSnapshot, daemonMachine } from '../../machines/daemon/chart.ts';
import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import { acceptedTypesOf, can, init, statePath, step } from '../../machines/step.ts';
import { Notifier } from '../../src/async/notifier.ts';
import type {
  EventRecord,
  LifecycleResult,
  ProviderRecord,
  RunInput,
  RunRecord,
  StatusRecord,
} from '../../src/contract/contract.ts';
import { shortMessages } from '../../src/contract/messages/parts.ts';
import { run } from '../../src/contract/run.ts';
import { SvcError } from '../../src/errors.ts';
import type { EventSlice, PageForm, Sized } from '../../src/kernel/event-pages.ts';
import { EventPage } from '../../src/kernel/event-pages.ts';
import {
  type HealthSources,
  healthRecord,
  reportRecord,
} from '../../src/observability/health/health.ts';
import type { HomeRuntime, Runtime } from '../../src/operations/port.ts';
import { errorOfRun } from '../../src/runtime/runs/run-errors.ts';
import { CREATED, EVENTS_TO, NOW, stop } from './daemon-paths.ts';
import { madeOf } from './made-of.ts';

type Part = {
  [P in keyof Runtime]: Runtime[P] extends (...given: never[]) => unknown ? never : P;
}[keyof Runtime];
/** Such as `health`, or `runs.start`. */
type Method = keyof Runtime | { [P in Part]: `${P}.${string & keyof Runtime[P]}` }[Part];

/**
 * A runtime that folds the real daemon machine. The test appends the events of its runs. It records
 * its calls, so that a test can show what a health answer reads.
 */
export interface FakeRuntime extends HomeRuntime {
  /** Folds an event into the daemon machine. Throws when the machine refuses it. */
  propose(proposed: NewEvent<DaemonEvent>): void;
  /** Folds events until the daemon is in the state. */
  bring(path: string): void;
  readonly path: string;
  /** The methods called, in order. */
  readonly calls: Method[];
  /** The inputs of `runs.start`. */
  readonly inputs: RunInput[];
  providerRecords: ProviderRecord[];
  /** Appends an event to a run and wakes its followers. */
  append(run_id: string, type: string, data?: Record<string, unknown>): EventRecord;
  /** The number of open followers. */
  readonly following: number;
  /** The number of events that followers read. */
  readonly given: number;
  /** Makes the next call of this method throw. */
  fail(method: Method, error: unknown): void;
  /** Resolves waiting cancellations. */
  release(): void;
}

export function fakeRuntime(): FakeRuntime {
  const calls: Method[] = [];
  const inputs: RunInput[] = [];
  const runs = new Map<string, { record: RunRecord; events: EventRecord[] }>();
  const changes = new Notifier();
  const failures = new Map<string, unknown>();
  let wakers = new Set<() => void>();
  let waitingCancels: (() => void)[] = [];
  let seq = 0;
  let following = 0;
  let given = 0;
  let daemon: DaemonSnapshot = init(daemonMachine, CREATED).snapshot;

  const note = (method: Method) => {
    calls.push(method);
    if (!failures.has(method)) return;
    const error = failures.get(method);
    failures.delete(method);
    throw error;
  };
  const find = (id: string) => {
    const run = runs.get(id);
    if (run === undefined)
      throw new SvcError('run_unknown', `There is no run ${JSON.stringify(id)}.`, { param: 'id' });
    return run;
  };
  const sources = (): HealthSources => ({
    daemon,
    engines: [],
    providers: fake.providerRecords,
    since: NOW,
    transitions: [],
    runs: { active: daemon.context.unsettled, queued: 0, finished: 0 },
    embeddings: { active: 0, answered: 0, failed: 0 },
    seq,
    backlog: 0,
    last_commit_ms: null,
    verified: null,
    placement: { trouble: null, checks: {} },
    store_bytes: null,
    stalled: null,
    service_id: daemon.context.boot_id,
    now: NOW,
  });
  const position = (): LifecycleResult => ({
    state: statePath(daemon).split('.')[0] ?? '',
    state_path: statePath(daemon),
  });

  const fake: FakeRuntime = {
    as: () => fake,
    approvals: {
      list: () => [],
      get: () => {
        throw new SvcError('approval_unknown');
      },
      decide: () => Promise.reject(new SvcError('approval_unknown')),
      async *watch() {
        yield { approvals: [] };
      },
    },
    calls,
    inputs,
    providerRecords: [],
    get path() {
      return statePath(daemon);
    },
    get following() {
      return following;
    },
    get given() {
      return given;
    },
    propose(proposed) {
      const event = { ...proposed, at: NOW } as DaemonEvent;
      if (!can(daemon, event))
        throw new Error(`${event.type} is not accepted in ${statePath(daemon)}`);
      daemon = step(daemonMachine, daemon, event).snapshot;
      changes.notify();
    },
    bring(path) {
      daemon = init(daemonMachine, CREATED).snapshot;
      for (const proposed of EVENTS_TO[path] ?? []) fake.propose(proposed);
      if (statePath(daemon) !== path)
        throw new Error(`the way to ${path} leads to ${statePath(daemon)}`);
    },
    append(run_id, type, data = {}) {
      const run = find(run_id);
      const event: EventRecord = {
        seq: ++seq,
        stream: run_id,
        version: run.events.length + 1,
        type,
        at: new Date(NOW).toISOString(),
        boot_id: 'boot_1',
        data,
      };
      run.events.push(event);
      run.record.seq = event.seq;
      if (typeof data.text === 'string') run.record.output += data.text;
      if (isTerminalEvent(type))
        Object.assign(run.record, { state: type.slice('run.'.length), ended_at: event.at });
      const woken = wakers;
      wakers = new Set();
      for (const wake of woken) wake();
      return event;
    },
    fail: (method, error) => failures.set(method, error),
    release() {
      for (const resolve of waitingCancels) resolve();
      waitingCancels = [];
    },

    probe() {
      note('probe');
      return { live: daemon.hasTag('live'), ready: daemon.hasTag('ready') };
    },
    health() {
      note('health');
      return healthRecord(sources());
    },
    report() {
      note('report');
      return reportRecord(sources());
    },
    status() {
      note('status');
      return { seq } as StatusRecord;
    },
    metrics: async () => '',
    stateChanges: changes,
    why: () => [],
    async usage() {
      note('usage');
      const none = {
        runs: 0,
        embeddings: 0,
        input_tokens: 0,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        estimated_runs: 0,
        estimated_embeddings: 0,
        cost: 0,
        cost_at_present_prices: 0,
      };
      return {
        by: 'model',
        since: null,
        covers_since: null,
        currency: 'USD',
        groups: [],
        total: { name: 'total', ...none, without_price: [] },
        budget: {
          per_day: null,
          tokens_per_day: null,
          spent: 0,
          spent_tokens: 0,
          resets_at: new Date(0).toISOString(),
        },
      };
    },
    stopped: () => Promise.resolve(null),
    async lifecycle(event) {
      note('lifecycle');
      if (event.type !== 'stop_requested' || !can(daemon, { ...stop, at: NOW } as DaemonEvent)) {
        throw new SvcError(
          'event_refused',
          `${JSON.stringify(event.type)} is not accepted in the state ${statePath(daemon)}.`,
          { details: { ...position(), accepted: acceptedTypesOf(daemon) } },
        );
      }
      fake.propose(stop);
      return position();
    },
    runs: partly<Runtime['runs']>({
      made: {} as never,
      conversations: {} as never,
      askerOf: async () => null,
      cancelAll: async () => 0,
      async start(input, _client) {
        note('runs.start');
        inputs.push(input);
        const id = `run_${runs.size + 1}`;
        runs.set(id, { record: newRun(id, input), events: [] });
        fake.append(id, 'run.accepted', { run_id: id });
        return { ...find(id).record };
      },
      async countTokens(input) {
        note('runs.countTokens');
        inputs.push(input);
        const { length } = JSON.stringify(input.messages ?? input.prompt);
        return { input_tokens: length, uncounted: null };
      },
      async get(id) {
        note('runs.get');
        return { ...find(id).record };
      },
      answer: async (id) => ({ ...find(id).record }),
      failure: async (id) => errorOfRun({ ...find(id).record }, NOW),
      find: async (written) => written,
      search: async () => ({ runs: [], next: null }),
      async show(id) {
        note('runs.show');
        return { ...find(id).record };
      },
      async head(id) {
        note('runs.head');
        const { record } = find(id);
        return { state: record.state, finished: record.ended_at !== null, seq: record.seq };
      },
      lastSeq: async () => seq,
      async list(query) {
        note('runs.list');
        return {
          runs: [...runs.values()].map((run) => run.record).slice(0, query.limit),
          next: JSON.stringify(query),
        };
      },
      async *follow(id, { form, from_seq = 0, signal }) {
        note('runs.follow');
        const { events } = find(id);
        following += 1;
        try {
          for (let index = 0; !signal.aborted; ) {
            const event = events[index];
            if (event === undefined) {
              await new Promise<void>((resolve) => {
                wakers.add(resolve);
                signal.addEventListener('abort', () => resolve(), { once: true });
              });
              continue;
            }
            index += 1;
            given += 1;
            if (event.seq >= from_seq) yield sliceOf(event, form);
            if (isTerminalEvent(event.type)) return;
          }
        } finally {
          following -= 1;
        }
      },
      async cancel(id) {
        note('runs.cancel');
        const { record } = find(id);
        if (record.ended_at === null) {
          await new Promise<void>((resolve) => waitingCancels.push(resolve));
          fake.append(id, 'run.cancelled', { forced: false });
        }
        return { ...record };
      },
      async readRequest(id) {
        note('runs.readRequest');
        const { record } = find(id);
        const { provider, model, cloud, prompt, system } = record;
        const request = {
          provider,
          model,
          cloud,
          messages: shortMessages(prompt, system),
          max_tokens: null,
          temperature: null,
          seed: 1,
          seed_asked: false,
        };
        return {
          request,
          asked_as: null,
          metadata: null,
          created_at: Date.parse(record.created_at),
        };
      },
      async remove(id) {
        note('runs.remove');
        if (find(id).record.ended_at === null) throw new SvcError('run_unfinished');
        runs.delete(id);
        return {};
      },
    }),
    queue: { watch: () => {} },
    embeddings: partly<Runtime['embeddings']>({
      async embed({ texts, model, provider, dimensions }) {
        note('embeddings.embed');
        return {
          vectors: texts.map((text) => Array.from({ length: dimensions ?? 3 }, () => text.length)),
          input_tokens: texts.length,
          provider: provider ?? 'local',
          model: model ?? 'svc-mini',
        };
      },
    }),
    mcp: partly<Runtime['mcp']>({ list: () => ({ servers: [], problem: null }), stop() {} }),
    providers: partly<Runtime['providers']>({
      list() {
        note('providers.list');
        return fake.providerRecords;
      },
    }),
    models: partly<Runtime['models']>({
      next: () => ({ provider: 'local', model: 'tiny', cloud: false }),
      aliases: () => ({}),
      isFile: () => false,
      presetOf: () => ({}),
      async list() {
        note('models.list');
        const rest = {
          size_bytes: 1,
          digest: null,
          quantization: null,
          parameters: null,
          context_length: 4096,
          capabilities: [],
          built_in: true,
          default: true,
        };
        return [
          {
            id: 'local/svc-mini',
            provider: 'local',
            name: 'svc-mini',
            state: 'available',
            path: '/secret/place/svc-mini.gguf',
            ...rest,
          },
        ];
      },
    }),
    nodes: {
      list: async () => ({ nodes: [] }),
      drain: () => Promise.reject(new SvcError('node_unknown')),
    },
    loads: partly<Runtime['loads']>({
      watch: () => () => {},
      list: () => ({ models: [], budget_bytes: 1, reserved_bytes: 0 }),
      isLocal: () => true,
      continuesTexts: () => false,
      keep: async () => {},
    }),
    pulls: partly<Runtime['pulls']>({}),
    history: partly<Runtime['history']>({
      machines: () => ({ machines: [], seq }),
      async *exportRun() {
        yield '{}';
        throw new Error('not here');
      },
      async *followLog() {
        yield* [];
        throw new Error('not here');
      },
    }),
  };
  return fake;
}

/** A page with one event. */
function sliceOf<B extends Sized>(event: EventRecord, form: PageForm<B>): EventSlice<B> {
  const page = new EventPage([{ ...event, at: Date.parse(event.at), schema: 1 }], form);
  return { page, events: page.events };
}

/** A part with the methods that tests use. Any other one refuses. */
function partly<P extends object>(used: Partial<P>): P {
  const refuse = () => Promise.reject(new Error('not here'));
  return new Proxy(used, {
    get: (methods, name) => Reflect.get(methods, name) ?? (name === 'then' ? undefined : refuse),
  }) as P;
}

function newRun(id: string, input: RunInput): RunRecord {
  return {
    ...madeOf(run),
    id,
    provider: input.provider ?? 'local',
    model: [input.model ?? 'svc-mini'].flat()[0] ?? '',
    cloud: input.cloud ?? false,
    prompt: input.prompt ?? '',
    system: input.system ?? null,
    output: '',
    queue_position: 1,
    created_at: new Date(NOW).toISOString(),
    idempotency_key: input.idempotency_key ?? null,
    client: input.client ?? 'test',
    recovery: input.recovery ?? 'resume',
  };
}
