import { checkGiven } from '../../contract/check.ts';
import type { EventSlice, RunRecord, RunWait } from '../../contract/contract.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import type { AppliedSettings } from '../../contract/settings.ts';
import { spanOf } from '../../contract/span.ts';
import { SvcError } from '../../errors.ts';
import { build } from '../../home/build.ts';
import type { Limits } from '../../limits.ts';
import type { PullInput } from '../../models/port.ts';
import type { ModelRecord } from '../../providers/port.ts';
import type { Runtime } from '../../runtime/port.ts';
import type { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import type { NamedTokens } from '../auth/named-tokens.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import { followWithWaits } from '../follow-with-waits.ts';
import {
  type Answered,
  type Method,
  methods,
  type Params,
  renamed,
  type StatusMore,
} from './protocol.ts';
import { statusWork } from './status-work.ts';

/** How a handler sends events before its result. */
export interface Reply {
  /** Aborted when the client cancels the request or disconnects. */
  signal: AbortSignal;
  /** Resolves when the client has read enough to get more. */
  event(event: unknown): Promise<void>;
  /** The same for events of a log, which are JSON already. */
  slice(slice: EventSlice): Promise<void>;
}

export type Handlers = {
  [M in Method]: (params: Params<M>, reply: Reply) => Answered<M> | Promise<Answered<M>>;
};

export interface HandlerOptions {
  runtime: Runtime;
  limits: Limits;
  token(): string;
  /** What is wrong with the addresses of the daemon; null when nothing is. */
  warning(): string | null;
  /** Replaces the token and ends the connections of the old one. */
  changeToken(): Promise<string>;
  /** The tokens of programs. */
  tokens: Pick<NamedTokens, 'list' | 'create' | 'revoke'>;
  /** A ticket for one sign-in at the console. `over` is called when it expires. */
  ticket(over: () => void): string;
  /** Writes a page to disk that takes a browser to the address. */
  signInPage(url: string): Promise<{ path: string; remove(): void }>;
  /** What the daemon runs with, and where each value comes from. */
  config(): unknown;
  /** What the configuration file says and the daemon does not do. */
  configChanges(): { keys: string[]; problem: string | null };
  /** Reads the file again. Throws config_invalid. */
  applyConfig(): AppliedSettings;
}

/** Finds the method, checks its parameters and calls its handler. Throws invalid_request. */
export function callMethod(
  handlers: Handlers,
  name: string,
  params: unknown,
  reply: Reply,
): unknown {
  const method = findMethod(name);
  if (method === null)
    throw new SvcError(
      'invalid_request',
      `There is no method ${JSON.stringify(name.slice(0, 80))}.`,
      { param: 'method', details: { unknown: 'method' } },
    );
  const handler = handlers[method] as (params: unknown, reply: Reply) => unknown;
  return handler(checkGiven(methods[method].params, params), reply);
}

export function findMethod(name: string): Method | null {
  const method = Object.hasOwn(renamed, name) ? renamed[name] : name;
  return method !== undefined && Object.hasOwn(methods, method) ? (method as Method) : null;
}

const BY = 'command line';

/** One handler for each method of the local socket. */
export function createHandlers({
  runtime,
  limits,
  warning,
  token,
  changeToken,
  tokens,
  config,
  configChanges,
  applyConfig,
  ticket,
  signInPage,
}: HandlerOptions): Handlers {
  const health = () => ({ ...runtime.health(), ...runtime.probe() });
  const cancelAll = (asked_by: string | null) => runtime.runs.cancelAll(asked_by, 'token');
  const more = (): StatusMore => {
    const { keys, problem } = configChanges();
    const started_at = new Date(performance.timeOrigin).toISOString();
    const { reason } = runtime.health();
    return { started_at, build, reason, not_in_force: keys, config_problem: problem };
  };
  const follow = async (
    id: string,
    from_seq: number,
    reply: Reply,
  ): Promise<RunRecord | RecordBytes> => {
    const following = { from_seq, signal: reply.signal };
    const report = (wait: RunWait) => reply.event(wait);
    for await (const slice of followWithWaits(runtime, id, following, report))
      await reply.slice(slice);
    return runtime.runs.show(id);
  };
  return {
    health,
    'health.watch': (_, reply) => watch(runtime, health, reply),
    report: () => runtime.report(),
    status: () => ({ ...runtime.status(), ...statusWork(runtime), warning: warning(), ...more() }),
    why: () => ({ events: runtime.why() }),
    lifecycle: (event) => runtime.lifecycle(event, BY),
    stopped: () => runtime.stopped(),
    'run.start': async ({ stream = false, traceparent, ...params }, reply) => {
      const input = parseRunInput(params, limits);
      const run = await runtime.runs.start(input, BY, spanOf(traceparent));
      if (stream !== true) return run;
      if (input.cancel_on_disconnect === true) cancelWhenGone(runtime, run.id, reply.signal);
      await reply.event({ run });
      return follow(run.id, 0, reply);
    },
    'run.find': async ({ id }) => ({ id: await runtime.runs.find(id) }),
    'run.next': async ({ conversation, ...asked }) =>
      runtime.models.next(
        conversation == null
          ? asked
          : await runtime.runs.conversations.peek({ ...asked, conversation }),
      ),
    'run.follow': async ({ id, from_seq }, reply) =>
      follow(await runtime.runs.find(id), from_seq ?? 0, reply),
    'run.cancel': async ({ id }) => runtime.runs.cancel(await runtime.runs.find(id), BY),
    'run.remove': async ({ id }) => {
      const removed = await runtime.runs.find(id);
      return { removed, ...(await runtime.runs.remove(removed)) };
    },
    'run.get': async ({ id }) => runtime.runs.show(await runtime.runs.find(id)),
    'run.list': (query) => runtime.runs.list(query),
    'run.search': (query) => runtime.runs.search(query),
    'model.list': async () => ({
      models: await runtime.models.list(),
      ...(await runtime.models.place()),
    }),
    usage: (query) => runtime.usage(query),
    'model.show': ({ id }) => runtime.models.show(id),
    'model.remove': ({ id }) => runtime.models.remove(id),
    'model.import': (input, { signal }) => runtime.pulls.import(input, signal),
    'model.use': ({ id }) => runtime.models.use(id),
    'model.aliases': () => ({ aliases: runtime.models.aliases() }),
    'model.alias': ({ name, model = null }) => runtime.models.setAlias(name, model),
    'model.ps': () => runtime.loads.list(),
    'model.load': (input, { signal }) => runtime.loads.load(input, signal),
    'model.unload': ({ model }) => runtime.loads.unload(model),
    'model.search': async ({ words }, { signal }) => ({
      models: await runtime.pulls.search(words, signal),
    }),
    'model.pull': (input, reply) => pull(runtime, { name: null, sha256: null, ...input }, reply),
    'model.pull_cancel': ({ id }) => runtime.pulls.cancel(id, BY),
    'provider.list': () => ({ providers: runtime.providers.list() }),
    'provider.add': (input) => runtime.providers.add(input),
    'provider.set': (input) => runtime.providers.set(input),
    'provider.use': ({ id }) => runtime.providers.use(id),
    'provider.remove': ({ id }) => runtime.providers.remove(id),
    'provider.key': ({ id }) => runtime.providers.rereadKey(id),
    'provider.test': ({ id }) => runtime.providers.test(id),
    'node.list': () => runtime.nodes.list(),
    'node.drain': ({ id }) => runtime.nodes.drain(id),
    machines: () => runtime.history.machines(),
    state: (query) => runtime.history.snapshot(query),
    'log.read': async ({ from_seq, limit }) => ({
      events: await runtime.history.readLog(from_seq, Math.min(limit, PAGE_EVENTS)),
    }),
    'log.stream': async ({ stream, from_version, limit }) => ({
      events: await runtime.history.readStream(stream, from_version, Math.min(limit, PAGE_EVENTS)),
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
    'config.apply': () => applyConfig(),
    token: () => ({ token: token() }),
    'token.list': () => ({ tokens: tokens.list() }),
    'token.create': ({ name, scope, rate = null, concurrent = null }) =>
      tokens.create({ name, scope, rate, concurrent }),
    'token.revoke': async ({ name, keep_runs = false }) => {
      const revoked = await tokens.revoke(name);
      return { ...revoked, cancelled: keep_runs ? 0 : await cancelAll(name) };
    },
    'token.rotate': async ({ keep_runs = false }) => {
      const token = await changeToken();
      return { token, cancelled: keep_runs ? 0 : await cancelAll(null) };
    },
  };
}

/**
 * One record now and one at each change, until the client cancels. Changes during a read count as
 * one.
 */
async function watch<T>(runtime: Runtime, read: () => T, reply: Reply): Promise<T> {
  while (!reply.signal.aborted) {
    const changed = runtime.stateChanges.next(reply.signal);
    await reply.event(read());
    await changed;
  }
  return read();
}

/** The record of the pull at each change, and its model at the end. */
async function pull(runtime: Runtime, input: PullInput, reply: Reply): Promise<ModelRecord | null> {
  let model: ModelRecord | null = null;
  for await (const record of runtime.pulls.pull(input, BY, reply.signal)) {
    await reply.event(record);
    model = record.model;
  }
  return model;
}

/**
 * The page's address. The ticket is in the fragment, which no server sees and the page removes.
 */
function consoleUrl(http: string, ticket: string): string {
  const reachable = http.replace(/(?<=^https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, '127.0.0.1');
  return `${reachable}/#ticket=${ticket}`;
}

/** Events in one answer. The store bounds their bytes. */
const PAGE_EVENTS = 1000;
