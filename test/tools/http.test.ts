import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limits } from '../../src/limits.ts';
import { failure } from '../helpers/failure.ts';
import { TOOL_BOMBS } from '../helpers/tool-bombs.ts';
import { bootToolServers } from '../helpers/tool-servers.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Does, event, INTRODUCTION, type WebTools, webTools } from '../helpers/web-tools.ts';

/** Tool servers over HTTP: sessions, streams, and answers over a bound. */

const ends: (() => Promise<unknown> | unknown)[] = [];
test.after.each(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const soon = () => AbortSignal.timeout(60_000);
const call = (more: { timeout_ms?: number; signal?: AbortSignal } = {}) => ({
  id: 'call_1',
  signal: soon(),
  timeout_ms: 30_000,
  ...more,
});

async function boot(does: Record<string, Does> = {}, limits: Partial<Limits> = {}) {
  const web = await webTools(does);
  const other = await webTools();
  const harness = await bootToolServers({ x: { url: web.url }, y: { url: other.url } }, { limits });
  ends.push(
    () => web.close(),
    () => other.close(),
    () => harness.leave(),
  );
  const { servers } = harness;
  const get = (more?: Parameters<typeof call>[0]) => servers.call('x', 'get', {}, call(more));
  const record = () => servers.list().servers[0];
  return { ...harness, web, get, record };
}

const got = { text: 'got', is_error: false };
const answer = (id: unknown, text = 'got') => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text }] },
});

/** A server with sessions. `forget` drops all, and refuses them in this way. */
async function withSessions(status = 404, words = '') {
  let number = 0;
  const known = new Set<unknown>();
  const inSession =
    (does: Does): Does =>
    (one) =>
      known.has(one.headers['mcp-session-id']) ? does(one) : one.res.writeHead(status).end(words);
  const booted = await boot({
    initialize: ({ id, body }) => {
      number += 1;
      known.add(`session-${number}`);
      const result = JSON.stringify({ jsonrpc: '2.0', id, result: INTRODUCTION });
      body(result, 'application/json', { 'mcp-session-id': `session-${number}` });
    },
  });
  const { does } = booted.web;
  for (const method of ['tools/list', 'tools/call']) does[method] = inSession(does[method] as Does);
  return { ...booted, known };
}

for (const [status, words] of [
  [404, ''],
  [400, 'Bad Request: No valid session ID provided'],
] as const)
  test(`a server that forgot its session (${status}) gets another one, and the call again`, async () => {
    const { web, get, record, known, events } = await withSessions(status, words);
    assert.equal(await get(), got);
    known.clear();
    assert.equal(await Promise.all([get(), get(), get()]), [got, got, got]);
    assert.is(web.count('initialize'), 2);
    await waitFor('it is idle', () => record()?.state === 'ready.idle');
    const calls = web.asked.filter(({ method }) => method === 'tools/call');
    assert.equal(
      calls.map(({ headers }) => headers['mcp-session-id']),
      [1, 1, 1, 1, 2, 2, 2].map((number) => `session-${number}`),
    );
    assert.not.ok((await events(1)).includes('mcp.ended'));
  });

test('a tool that is another one in the next session is not called there', async () => {
  const { web, get, known, servers } = await withSessions();
  assert.equal(await get(), got);
  known.clear();
  web.does['tools/list'] = ({ result }) =>
    result({ tools: [{ name: 'get', description: 'Another.', inputSchema: {} }] });
  const error = await failure(get());
  assert.is(error.code, 'mcp_unavailable');
  assert.match(error.message, /began another session, in which get is not the tool that was/);
  assert.is(web.count('tools/call'), 2, 'the old session was asked, and refused');
  assert.match(
    (await failure(get())).message,
    /began another session/,
    'by another caller neither',
  );
  assert.is((await servers.tools('x', soon()))[0]?.description, 'Another.');
  assert.equal(await get(), got, 'now it is known');
});

test('a session that is forgotten at once is not begun again and again', async () => {
  const { web, get, record } = await boot({
    initialize: ({ id, body }) =>
      body(JSON.stringify({ jsonrpc: '2.0', id, result: INTRODUCTION }), 'application/json', {
        'mcp-session-id': 'one',
      }),
    'tools/call': ({ res }) => res.writeHead(404).end(),
  });
  const error = await failure(get());
  assert.equal([error.code, web.count('tools/call')], ['mcp_unavailable', 2]);
  assert.match(error.message, /answered HTTP 404/);
  await waitFor('it has failed', () => record()?.state === 'failing');
});

test('a 400 of another kind begins no session', async () => {
  const { web, get, known } = await withSessions(400, 'The arguments are wrong.');
  await get();
  known.clear();
  assert.match((await failure(get())).message, /answered HTTP 400/);
  assert.is(web.count('initialize'), 1);
});

test('a stream that ends without the response is a loss at once, and the session goes on', async () => {
  const { web, get, record } = await boot({
    'tools/call': ({ events, res }) => {
      events(event({ jsonrpc: '2.0', method: 'notifications/message', params: {} }));
      res.end();
    },
  });
  const error = await failure(get({ timeout_ms: 86_400_000 }));
  assert.is(error.code, 'tool_lost');
  assert.match(error.message, /the tool server x ended its answer without the response\./);
  await waitFor('it is idle', () => record()?.state === 'ready.idle');
  web.does['tools/call'] = ({ id, events }) => events(event(answer(id)));
  assert.equal(await get(), got, 'a stream that stays open after the response is closed');
  await waitFor('it is closed', () => web.asked.at(-1)?.res.destroyed);
});

for (const [what, does] of [
  ['JSON without the response', ({ body }) => body('{"jsonrpc":"2.0","method":"n"}')],
  ['JSON that is none', ({ body }) => body('{"jsonrpc":')],
  ['a page', ({ body }) => body('<html>', 'text/html; charset=utf-8')],
  ['nothing', ({ res }) => res.writeHead(202).end()],
  ['a cut body', ({ res }) => res.writeHead(200, { 'content-length': '99' }).end('{')],
] as [string, Does][])
  test(`an answer with ${what} is a loss at once`, async () => {
    const { get } = await boot({ 'tools/call': does });
    const error = await failure(get({ timeout_ms: 86_400_000 }));
    assert.is(error.code, 'tool_lost');
  });

test('a stream with ids is resumed after the last one, as often as the server closes it', async () => {
  const { web, get } = await boot();
  let id: unknown;
  web.does['tools/call'] = (one) => {
    id = one.id;
    one.events('retry: 1\nid: one\ndata:\n\n');
    one.res.end();
  };
  web.does.GET = ({ headers, events, res }) => {
    const last = headers['last-event-id'];
    if (last === undefined) return res.writeHead(405).end();
    events(last === 'one' ? 'id: two\ndata:\n\n' : event(answer(id)));
    return res.end();
  };
  assert.equal(await get(), got);
  const asked = web.asked.flatMap(({ headers }) => headers['last-event-id'] ?? []);
  assert.equal(asked, ['one', 'two']);
  web.does.GET = ({ res }) => res.writeHead(405).end();
  const error = await failure(get({ timeout_ms: 86_400_000 }));
  assert.equal([error.code, /without the response/.test(error.message)], ['tool_lost', true]);
});

test('the stream of what the server sends by itself is opened again after a clean end', async () => {
  let streams = 0;
  const { servers, web } = await boot({
    GET: ({ events, res }) => {
      streams += 1;
      events('retry: 1\n\n');
      if (streams > 1)
        events(event({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }));
      res.end();
    },
  });
  await servers.tools('x', soon());
  web.does['tools/list'] = ({ result }) => result({ tools: [{ name: 'new' }] });
  await waitFor('the new list', async () => {
    const [tool] = await servers.tools('x', soon());
    return tool?.tool === 'new';
  });
});

test('a response may come in the stream of what the server sends by itself', async () => {
  const { web, get, servers } = await boot({
    GET: ({ events }) => events(': open\n\n'),
    'tools/call': async ({ id, res }) => {
      const stream = web.asked.find(({ verb }) => verb === 'GET');
      stream?.events(event({ jsonrpc: '2.0', id: 'p', method: 'ping' }));
      await waitFor('svc reads the stream', () => web.count('POST') === 1);
      res.writeHead(202).end();
      stream?.events(event(answer(id)));
    },
  });
  await servers.tools('x', soon());
  await waitFor('the stream', () => web.count('GET') === 1);
  assert.equal(await get(), got);
});

test('a refusal has the reason that the server gives', async () => {
  const error = { code: -32602, message: 'No\u001b such\nplace.' };
  const { get } = await boot({
    'tools/call': ({ id, res }) =>
      res.writeHead(400).end(JSON.stringify({ jsonrpc: '2.0', id, error })),
  });
  const { code, message } = await failure(get());
  const shown = 'The tool server x answered HTTP 400: No\ufffd such place.';
  assert.equal([code, message], ['mcp_unavailable', shown]);
});

for (const [what, does] of [
  ['JSON', ({ id, body }) => body(JSON.stringify([{ jsonrpc: '2.0', method: 'n' }, answer(id)]))],
  ['a stream', ({ id, events }) => events(event([{ jsonrpc: '2.0', method: 'n' }, answer(id)]))],
] as [string, Does][])
  test(`a batch is read in ${what}`, async () => {
    const { get } = await boot({ 'tools/call': does });
    assert.equal(await get(), got);
  });

test('a server that cannot start yet is asked again when it says, within the time of a start', async () => {
  let tries = 0;
  const { web, servers } = await boot({
    initialize: ({ res, result }) => {
      tries += 1;
      if (tries > 2) return result(INTRODUCTION);
      return res.writeHead(tries === 1 ? 503 : 429, { 'retry-after': '0' }).end();
    },
  });
  assert.is((await servers.tools('x', soon())).length, 1);
  assert.is(web.count('initialize'), 3);
});

test('one that wants to be left alone for longer fails at once, and had no session', async () => {
  const { servers, record, web } = await boot({
    initialize: ({ res }) => res.writeHead(503, { 'retry-after': '600' }).end(),
  });
  const error = await failure(servers.tools('x', soon()));
  assert.equal([error.code, error.retryable], ['mcp_unavailable', true]);
  assert.is(error.message, 'The tool server x answered HTTP 503.');
  assert.equal([record()?.reason, web.count('initialize')], [error.message, 1]);
});

test('a server that is asked too often keeps its session', async () => {
  const { web, get, record } = await boot({
    'tools/call': ({ res }) => res.writeHead(429, { 'retry-after': '1' }).end(),
  });
  const error = await failure(get());
  assert.is(error.code, 'mcp_unavailable');
  await waitFor('it is idle', () => record()?.state === 'ready.idle');
  delete web.does['tools/call'];
});

for (const [what, { does, reason }] of Object.entries(TOOL_BOMBS))
  test(`an answer with ${what} costs the call and its session, and nothing else`, async () => {
    const { servers, get, record } = await boot({ 'tools/call': does });
    await servers.tools('y', soon());
    const error = await failure(get());
    assert.is(error.code, 'tool_lost');
    assert.match(error.message, reason);
    await waitFor('it has failed', () => record()?.state === 'failing');
    assert.match(record()?.reason ?? '', reason);
    assert.equal(await servers.call('y', 'get', {}, call()), got);
  });

test('a server that takes no answer to what it asks is ended', async () => {
  const { get, record } = await boot(
    {
      'tools/call': ({ events, res }) => {
        // Slower than its requests come back.
        const timer = setInterval(
          () => events(event({ jsonrpc: '2.0', id: 1, method: 'ping' })),
          300,
        );
        res.on('close', () => clearInterval(timer));
      },
      reply: () => {},
    },
    { mcp_requests: 1 },
  );
  const error = await failure(get());
  const why = 'was ended: it does not take the answers to its requests';
  assert.is(error.code, 'tool_lost');
  assert.match(error.message, why);
  await waitFor('it has failed', () => record()?.state === 'failing');
  assert.is(record()?.reason, `The session with the tool server x ${why}.`);
});

for (const [what, does] of [
  [
    'a body that does not end',
    ({ res }) => res.writeHead(200, { 'content-type': 'application/json' }).write('{'),
  ],
  ['no headers', () => {}],
] as [string, Does][])
  test(`${what}: the connection is closed when the call is late`, async () => {
    const { web, get, record } = await boot({ 'tools/call': does });
    const error = await failure(get({ timeout_ms: 50 }));
    assert.match(error.message, /did not answer within 50 ms/);
    const slow = web.asked.find(({ method }) => method === 'tools/call');
    await waitFor('it is closed', () => slow?.res.destroyed);
    await waitFor('the server hears of it', () => web.count('notifications/cancelled') === 1);
    await waitFor('it is idle', () => record()?.state === 'ready.idle');
  });

test('only the times of svc end a call, and none of the program that fetches', async () => {
  const usual = getGlobalDispatcher();
  // Its clock moves each half second.
  setGlobalDispatcher(new Agent({ headersTimeout: 1, bodyTimeout: 1 }));
  try {
    const { get } = await boot({
      'tools/call': async ({ id, events }) => {
        await sleep(1500);
        events(': open\n\n');
        await sleep(1500);
        events(event(answer(id)));
      },
    });
    assert.equal(await get(), got);
  } finally {
    setGlobalDispatcher(usual);
  }
});

async function listed(web: WebTools, page: unknown) {
  web.does['tools/list'] = ({ result }) => result(page);
}

test('a list ends at a cursor that is null, empty, or known', async () => {
  const tools = (name: string) => [{ name, inputSchema: {} }];
  for (const cursor of [null, '', 'same', 7]) {
    const { web, servers } = await boot();
    await listed(web, { tools: tools('a'), nextCursor: cursor, _meta: null });
    const { tools: found, problems } = await servers.show('x', false, soon());
    const pages = cursor === 'same' ? 2 : 1;
    assert.equal([found.length, web.count('tools/list')], [1, pages], String(cursor));
    assert.equal(problems, pages === 2 ? ['a is listed twice'] : []);
  }
  const { web, servers } = await boot();
  await listed(web, { tools: null });
  assert.equal(await servers.tools('x', soon()), []);
});

test('a list in a wrong form is named', async () => {
  const { web, servers } = await boot();
  await listed(web, { tools: { a: 1 } });
  const error = await failure(servers.tools('x', soon()));
  assert.is(error.message, 'The tool server x lists its tools in a wrong form.');
});

test.run();
