import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { ModelRecord } from '../../providers/port.ts';
import type {
  EventSlice,
  HealthRecord,
  ProviderInput,
  RunRecord,
  Runtime,
} from '../../runtime/contract.ts';
import { parsePullInput } from '../../runtime/pulls/input.ts';
import { parseRunInput } from '../../runtime/runs/input.ts';
import type { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import type { Method } from './protocol.ts';

/** How a handler sends events before its result. */
export interface Reply {
  /** Aborted when the caller gave up. */
  signal: AbortSignal;
  /** Resolves when the caller has read enough to be sent more. */
  event(event: unknown): Promise<void>;
  /** The same for events of a log, which are text already. */
  slice(slice: EventSlice): Promise<void>;
}

export type Handler = (params: Record<string, unknown>, reply: Reply) => unknown;
export type Handlers = Record<Method, Handler>;

export interface MethodOptions {
  runtime: Runtime;
  limits: Limits;
  token(): string;
  /** What is wrong with where the daemon listens; null when nothing is. */
  warning(): string | null;
  /** Replaces the token; what the old one let in ends. */
  changeToken(): Promise<string>;
  /** Good for one sign-in at the console; `over` is called when it is good no more. */
  ticket(over: () => void): string;
  /** A page on disk that takes a browser to the address. */
  signInPage(url: string): Promise<{ path: string; remove(): void }>;
  /** What the daemon runs with, and where each value comes from. */
  config(): unknown;
}

/** What the local socket can be asked, each method in a line or two. */
export function createMethods({
  runtime,
  limits,
  warning,
  token,
  changeToken,
  config,
  ticket,
  signInPage,
}: MethodOptions): Handlers {
  const health = () => ({ ...runtime.health(), ...runtime.probe() });
  const follow = async (
    id: string,
    from_seq: number,
    reply: Reply,
  ): Promise<RunRecord | RecordBytes> => {
    const unwatch = runtime.watchQueue(
      id,
      (queue_position) => queue_position === null || void reply.event({ queue_position }),
    );
    try {
      for await (const slice of runtime.followRun(id, { from_seq, signal: reply.signal }))
        await reply.slice(slice);
      return await runtime.showRun(id);
    } finally {
      unwatch();
    }
  };
  return {
    health,
    'health.watch': (_, reply) => watch(runtime, health, reply),
    report: () => runtime.report(),
    status: () => ({ ...runtime.status(), warning: warning() }),
    why: () => ({ events: runtime.why() }),
    lifecycle: (params) =>
      runtime.lifecycle(
        {
          type: text(params, 'type'),
          ...optional('mode', params.mode, isText),
          ...optional('timeout_ms', params.timeout_ms, isDuration),
        },
        'command line',
      ),
    'run.start': async ({ stream = false, ...params }, reply) => {
      const input = parseRunInput(params, limits);
      const run = await runtime.startRun(input, 'command line');
      if (stream !== true) return run;
      if (input.cancel_on_disconnect === true) cancelWhenGone(runtime, run.id, reply.signal);
      await reply.event({ run });
      return follow(run.id, 0, reply);
    },
    stopped: () => runtime.stopped(),
    'run.follow': (params, reply) =>
      follow(text(params, 'id'), isCount(params.from_seq) ? params.from_seq : 0, reply),
    'run.cancel': (params) => runtime.cancelRun(text(params, 'id'), 'command line'),
    'run.get': (params) => runtime.showRun(text(params, 'id')),
    'run.list': (params) =>
      runtime.listRuns({
        ...optional('limit', params.limit, isCount),
        ...optional('before', params.before, isText),
        ...optional('state', params.state, isText),
        ...optional('provider', params.provider, isText),
        ...(params.texts === 'short' ? { texts: 'short' } : {}),
      }),
    'model.list': async () => ({ models: await runtime.listModels() }),
    'model.show': (params) => runtime.showModel(text(params, 'id')),
    'model.remove': (params) => runtime.removeModel(text(params, 'id')),
    'model.pull': (params, reply) => pull(runtime, params, reply),
    'model.pull_cancel': (params) => runtime.cancelPull(text(params, 'id'), 'command line'),
    'provider.list': () => ({ providers: runtime.listProviders() }),
    'provider.add': (params) =>
      runtime.addProvider({ ...params, id: text(params, 'id') } as unknown as ProviderInput),
    'provider.remove': (params) => runtime.removeProvider(text(params, 'id')),
    'provider.test': (params) => runtime.testProvider(text(params, 'id')),
    machines: () => runtime.machines(),
    picture: (params) => runtime.picture(optional('at', params.at, isCount)),
    'log.read': async (params) => ({
      events: await runtime.readLog(
        count(params, 'from_seq'),
        Math.min(count(params, 'limit'), PAGE_EVENTS),
      ),
    }),
    'log.stream': async (params) => ({
      events: await runtime.readStream(
        text(params, 'stream'),
        count(params, 'from_version'),
        Math.min(count(params, 'limit'), PAGE_EVENTS),
      ),
    }),
    console: async ({ file = false }) => {
      const http = runtime.status().addresses.http;
      if (http === null) throw new SvcError('not_ready', 'The daemon does not listen on HTTP yet.');
      let page: Awaited<ReturnType<typeof signInPage>> | null = null;
      const url = consoleUrl(
        http,
        ticket(() => page?.remove()),
      );
      if (file !== true) return { url, file: null };
      page = await signInPage(url);
      return { url, file: page.path };
    },
    config,
    token: () => ({ token: token() }),
    'token.rotate': async () => ({ token: await changeToken() }),
  };
}

/** Cancels the run when the one who asked is gone before its end. */
function cancelWhenGone(runtime: Runtime, id: string, gone: AbortSignal): void {
  const cancel = () => void runtime.cancelRun(id, 'disconnect').catch(() => {});
  if (gone.aborted) cancel();
  else gone.addEventListener('abort', cancel, { once: true });
}

/** One record now and one at each change, until the caller gives up. Changes that come while it reads are told as one. */
async function watch(
  runtime: Runtime,
  read: () => HealthRecord,
  reply: Reply,
): Promise<HealthRecord> {
  let wake = () => {};
  const stop = runtime.onState(() => wake());
  const give_up = () => wake();
  reply.signal.addEventListener('abort', give_up);
  try {
    while (!reply.signal.aborted) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve;
      });
      await reply.event(read());
      await changed;
    }
    return read();
  } finally {
    stop();
    reply.signal.removeEventListener('abort', give_up);
  }
}

/** The record of the pull at each change; its model at the end. */
async function pull(
  runtime: Runtime,
  params: Record<string, unknown>,
  reply: Reply,
): Promise<ModelRecord | null> {
  let model: ModelRecord | null = null;
  for await (const record of runtime.pullModel(parsePullInput(params), {
    client: 'command line',
    signal: reply.signal,
  })) {
    await reply.event(record);
    model = record.model;
  }
  return model;
}

/** The page's address, with a ticket where no server sees it and no history keeps it for long. */
function consoleUrl(http: string, ticket: string): string {
  return `${http.replace(/^http:\/\/(0\.0\.0\.0|\[::\])(?=:)/, 'http://127.0.0.1')}/#ticket=${ticket}`;
}

function count(params: Record<string, unknown>, name: string): number {
  const value = params[name];
  if (isCount(value)) return value;
  throw new SvcError('invalid_request', `${name} must be a whole number.`, { param: name });
}

function text(params: Record<string, unknown>, name: string): string {
  const value = params[name];
  if (isText(value) && value !== '') return value;
  throw new SvcError('invalid_request', `${name} must be a text.`, { param: name });
}

function optional<K extends string, T>(
  name: K,
  value: unknown,
  is: (value: unknown) => value is T,
): { [P in K]?: T } {
  if (value === undefined || value === null) return {};
  if (is(value)) return { [name]: value } as { [P in K]?: T };
  throw new SvcError('invalid_request', `${name} is not of the right form.`, { param: name });
}

/** Events in one answer; the store bounds their bytes. */
const PAGE_EVENTS = 1000;

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
const isDuration = (value: unknown): value is number => isCount(value) && value <= 86_400_000;
