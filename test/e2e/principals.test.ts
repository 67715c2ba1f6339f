import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { routes, socketRoutes } from '../../src/daemon/routes.ts';
import { methodScopes } from '../../src/grpc/runtime.ts';
import { toolsOver } from '../../src/transport/mcp/tools.ts';
import { type RuntimeClient, runtimeClient } from '../grpc/runtime-client.ts';
import { scopedTokens } from '../helpers/scoped-tokens.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { ask } from '../transport/http/boot.ts';
import { ASKERS, type Asker, groups, type Outcome } from './principals.ts';

/** Each row of the table, at the built daemon: HTTP, gRPC, WebSocket and the local socket. */
interface World {
  home: Home;
  life: Life;
  http: string;
  grpc: RuntimeClient;
  tokens: Record<Asker, string | null>;
}
const test = suite<World>('principals');

test.before(async (context) => {
  context.home = makeHome();
  const { home } = context;
  context.life = await serve(home);
  const { addresses } = await context.life.ask((client) => client.call('status'));
  context.http = addresses.http ?? '';
  context.tokens = { none: null, ...(await scopedTokens(home)) };
  context.grpc = runtimeClient(addresses.grpc ?? '');
});
test.after(async ({ home, life, grpc }) => {
  grpc.close();
  await life.stop(0);
  await home.close();
});

type Send = (asker: Asker, method: string, path: string, body?: object) => ReturnType<typeof ask>;

function sender({ http, tokens }: World): Send {
  return async (asker, method, path, body) => {
    const token = tokens[asker];
    const headers: Record<string, string> =
      token === null ? {} : { authorization: `Bearer ${token}` };
    // It has no end, and its head says all.
    if (path === '/v1/approvals/events') {
      const { status, body: stream } = await fetch(http + path, { headers });
      await stream?.cancel();
      return { status, headers: {}, text: '', json: undefined };
    }
    if (path === '/mcp') headers.accept = 'application/json, text/event-stream';
    return ask(http + path, { method, headers, ...(body === undefined ? {} : { body }) });
  };
}

/** A response that has ended, and a conversation with an item: both of `own`. */
async function made(send: Send) {
  const body = {
    model: 'svc-mini',
    input: 'What is a run?',
    max_output_tokens: 16,
    background: true,
  };
  const response = String((await send('own', 'POST', '/v1/responses', body)).json.id);
  await waitFor('it ends', async () => {
    const { json } = await send('own', 'GET', `/v1/responses/${response}`);
    return json.status === 'completed' || json.status === 'incomplete';
  });
  const items = [{ role: 'user', content: 'kept' }];
  const conversation = String((await send('own', 'POST', '/v1/conversations', { items })).json.id);
  const [item] = (await send('own', 'GET', `/v1/conversations/${conversation}/items`)).json.data;
  return { run: response.replace('resp_', 'run_'), response, conversation, item: String(item.id) };
}
type Made = Awaited<ReturnType<typeof made>>;

function pathOf(path: string, { run, response, conversation, item }: Made): string {
  const id = path.startsWith('/v1/runs')
    ? run
    : path.startsWith('/v1/responses')
      ? response
      : path.startsWith('/v1/conversations')
        ? conversation
        : 'nothing';
  const query = path.endsWith('/search') ? '?words=run' : '';
  const parts: Record<string, string> = {
    ':id': id,
    ':item': item,
    ':name': 'run',
    ':provider': 'x',
  };
  return path.replace(/:\w+/g, (name) => parts[name] ?? name).replace('*', 'x') + query;
}

/** The body of a change. Others are refused as invalid, which comes after the check. */
const BODIES: Readonly<Record<string, object>> = {
  'POST /v1/conversations/:id': { metadata: { a: 'b' } },
  'POST /v1/conversations/:id/items': { items: [{ role: 'user', content: 'more' }] },
};

/** One that needs what it names. The others may be refused for what they send. */
const ONE = new Set(['sees', 'changes']);

function check(status: number, expected: Outcome, isOne: boolean, what: string): void {
  if (typeof expected === 'number') assert.is(status, expected, what);
  else if (isOne) assert.ok(status < 400, `${what}: ${status}`);
  else assert.ok(status !== 401 && status !== 403, `${what}: ${status}`);
}

test('each route, method of gRPC, WebSocket and tool has one row, and each row has them', () => {
  const all = Object.values(groups);
  const sorted = (names: readonly string[]) => [...names].sort();
  assert.equal(
    sorted(all.flatMap(({ http }) => http)),
    sorted(routes.map(({ method, path }) => `${method} ${path}`)),
  );
  assert.equal(sorted(all.flatMap(({ grpc }) => grpc)), sorted(Object.keys(methodScopes)));
  const sockets = ['/v1/events', '/v1/logs', ...socketRoutes.map(({ path }) => path)];
  assert.equal(sorted(all.flatMap(({ ws }) => ws)), sorted(sockets));
  const offered = toolsOver(async () => null).map(({ name }) => name);
  assert.equal(sorted(all.flatMap(({ tools = [] }) => tools)), sorted(offered));
});

test('HTTP', async (context) => {
  const send = sender(context);
  const kept = await made(send);
  for (const [name, { http, outcomes }] of Object.entries(groups))
    for (const operation of http) {
      const [method = '', path = ''] = operation.split(' ');
      let at = name === 'changes' ? await made(send) : kept;
      // Who is refused comes first: a change can be made once.
      const order = ASKERS.toSorted(
        (a, b) => Number(outcomes[a] === 'yes') - Number(outcomes[b] === 'yes'),
      );
      let changed = false;
      for (const asker of order) {
        const expected = outcomes[asker];
        if (name === 'changes' && expected === 'yes' && changed) at = await made(send);
        const body = method === 'GET' ? undefined : (BODIES[operation] ?? {});
        const { status, text } = await send(asker, method, pathOf(path, at), body);
        check(status, expected, ONE.has(name), `${operation} by ${asker}`);
        // The states are for any client, and addresses are not.
        if (name === 'report') assert.is(/"base_url"/.test(text), expected !== 'part', asker);
        changed ||= expected === 'yes';
        if (name !== 'lists' || path === '/v1/usage' || status >= 400) continue;
        assert.is(
          text.includes(at.run),
          !['other', 'approve'].includes(asker),
          `${operation} by ${asker}`,
        );
      }
    }
});

const GRPC: Readonly<Record<number, number>> = { 16: 401, 7: 403, 5: 404 };
const STREAMS = new Set(['Run', 'Attach', 'WatchStatus', 'WatchApprovals']);

test('gRPC', async (context) => {
  const { grpc, tokens } = context;
  const send = sender(context);
  const kept = await made(send);
  /** The status in numbers of HTTP, and the answer. */
  const call = async (method: string, request: object, token: string | null) => {
    if (!STREAMS.has(method)) {
      const answer = await grpc
        .ask(method, request, { token })
        .catch((error: { code: number }) => error);
      const code = Number((answer as { code?: number }).code ?? 0);
      return { status: GRPC[code] ?? (code === 0 ? 200 : 400), text: JSON.stringify(answer) };
    }
    const stream = grpc.stream(method, request, { token });
    let over = false;
    const ended = stream.ended.finally(() => {
      over = true;
    });
    await waitFor('the stream answers', () => over || stream.updates.length > 0);
    stream.call.cancel();
    const { code } = await ended;
    return { status: stream.updates.length > 0 ? 200 : (GRPC[code] ?? 400), text: '' };
  };
  for (const [name, { grpc: operations, outcomes }] of Object.entries(groups))
    for (const method of operations) {
      let at = name === 'changes' ? await made(send) : kept;
      const order = ASKERS.toSorted(
        (a, b) => Number(outcomes[a] === 'yes') - Number(outcomes[b] === 'yes'),
      );
      let changed = false;
      for (const asker of order) {
        const expected = outcomes[asker];
        if (name === 'changes' && expected === 'yes' && changed) at = await made(send);
        const requests: Record<string, object> = {
          Search: { words: 'run' },
          Stop: { mode: 'nothing' },
          DrainNode: { id: 'nothing' },
          Get: { id: at.run },
          ConversationUsage: { id: at.conversation },
          Attach: { id: at.run },
          Cancel: { id: at.run },
          Remove: { id: at.run },
        };
        const { status, text } = await call(method, requests[method] ?? {}, tokens[asker]);
        check(status, expected, ONE.has(name), `${method} by ${asker}`);
        changed ||= expected === 'yes';
        if (name === 'lists')
          assert.is(
            text.includes(at.run),
            !['other', 'approve', 'none'].includes(asker),
            `${method} by ${asker}`,
          );
      }
    }
});

test('WebSocket', async ({ http, tokens }) => {
  for (const { ws, outcomes } of Object.values(groups))
    for (const path of ws)
      for (const asker of ASKERS) {
        const token = tokens[asker];
        const socket = new WebSocket(`${http.replace('http', 'ws')}${path}`, {
          headers: token === null ? {} : { authorization: `Bearer ${token}` },
        });
        socket.on('error', () => {});
        const opened = once(socket, 'open').then(() => 200);
        const refused = once(socket, 'unexpected-response').then(([, res]) =>
          Number(res.statusCode),
        );
        check(await Promise.race([opened, refused]), outcomes[asker], false, `${path} by ${asker}`);
        socket.terminate();
      }
});

/** What a tool of `/mcp` says, in numbers of HTTP. */
const TOOL_CODES: readonly (readonly [RegExp, number])[] = [
  [/\(scope_insufficient\)/, 403],
  [/\(run_unknown\)/, 404],
];

test('tools of /mcp', async (context) => {
  const send = sender(context);
  const { run } = await made(send);
  const values: Readonly<Record<string, object>> = {
    ask: { prompt: 'What is a run?', max_tokens: 1 },
    search_runs: { words: 'run' },
    show_run: { id: run },
    why_run: { id: run },
  };
  for (const [group, { tools = [], outcomes }] of Object.entries(groups))
    for (const name of tools)
      for (const asker of ASKERS) {
        const params = { name, arguments: values[name] ?? {} };
        const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
        const { status, text } = await send(asker, 'POST', '/mcp', message);
        const refused = TOOL_CODES.find(([code]) => code.test(text))?.[1];
        const what = `${name} by ${asker}`;
        check(status === 200 ? (refused ?? 200) : status, outcomes[asker], true, what);
        if (refused === undefined && status === 200) assert.not.match(text, '"isError":true', what);
        if (group === 'lists' && name !== 'usage')
          assert.is(text.includes(run), !['none', 'other', 'approve'].includes(asker), what);
      }
});

test('the local socket is the home, with HTTP and with its protocol', async (context) => {
  const { home, life } = context;
  const { run } = await made(sender(context));
  await life.ask(async (client) => {
    assert.is((await client.call('run.get', { id: run })).asked_by, 'cat');
    const { runs } = await client.call('run.list', {});
    assert.ok(runs.some(({ id }) => id === run));
    assert.ok((await client.call('log.read', { from_seq: 1, limit: 5 })).events.length > 0);
  });
  for (const path of [`/v1/runs/${run}`, '/v1/runtime/state', '/v1/settings', '/v1/usage'])
    assert.is((await home.svc(['api', 'GET', path])).code, 0, path);
});

test.run();
