import { once } from 'node:events';
import { status } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { withoutNull } from '../../src/contract/check.ts';
import { SCOPES } from '../../src/contract/words.ts';
import { createGrpc, type Grpc } from '../../src/grpc/server.ts';
import { unboundedHolder } from '../../src/transport/auth/holder.ts';
import { createTokenAccess, NEVER } from '../../src/transport/auth/token-access.ts';
import { callingModel } from '../helpers/calling-model.ts';
import { silent } from '../helpers/kernel.ts';
import { ScriptedServers } from '../helpers/scripted-servers.ts';
import { waitFor } from '../helpers/wait.ts';
import { TOKEN } from '../transport/http/boot.ts';
import { bootReal, type Real } from '../transport/http/real.ts';
import { detailsOf, type Message, type RuntimeClient, runtimeClient } from './runtime-client.ts';

/** Calls of tools that wait for a person. The token of a scope is its name. */
const test = suite<{ real: Real; grpc: Grpc; client: RuntimeClient; servers: ScriptedServers }>(
  'approvals over gRPC',
);

const find = (sent: string) => {
  const scope = SCOPES.find((scope) => scope === sent);
  return scope === undefined ? null : { ...unboundedHolder(NEVER), name: sent, scope };
};

test.before.each(async (context) => {
  const run = (args: unknown) => ({ text: JSON.stringify(args), is_error: false });
  const servers = new ScriptedServers({ 'files/write': { description: 'Writes.', run } });
  const { script } = callingModel([['files__write', '{"a":1}']], [['files__write', '{"a":2}']]);
  const real = await bootReal({ script, servers });
  const grpc = createGrpc({
    runtime: real.runtime,
    limits: real.config.limits,
    log: silent,
    unsent: real.unsent,
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN, named: { find } }),
  });
  const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
  Object.assign(context, { real, grpc, client, servers });
});
test.after.each(async ({ real, grpc, client }) => {
  client.close();
  await grpc.close();
  await real.close();
});

const approve = { token: 'approve' };
/** Without the names that the library gives to optional fields. */
const fieldsOf = (message: Message): Message =>
  Object.fromEntries(Object.entries(message).filter(([name]) => !name.startsWith('_')));
const codeOf = (refused: Parameters<typeof detailsOf>[0]) =>
  detailsOf(refused).ErrorInfo.metadata.code;

test('a list with a limit has the newest calls, and how many older ones wait', async ({
  real,
  client,
}) => {
  const ids: string[] = [];
  for (const place of [1, 2, 3]) {
    const asked = { prompt: 'go', tool_servers: ['files'] };
    ids.push((await real.runtime.runs.start(asked, 'x')).id);
    await waitFor('the approval', () => real.runtime.approvals.list().length === place);
  }
  const listed = async (query: string) => {
    const { approvals, older } = (await real.get(`/v1/approvals${query}`)).json;
    return [approvals.map(({ run }: Message) => run), older];
  };
  assert.equal(await listed('?limit=2'), [ids.slice(1), 1]);
  assert.equal(await listed('?limit=3'), [ids, undefined]);
  assert.equal(await listed(''), [ids, undefined]);
  assert.is((await real.get('/v1/approvals?limit=0')).status, 400);
  const { approvals, older } = await client.ask('Approvals', { limit: 1 }, approve);
  assert.equal([approvals.map(({ run }: Message) => run), older], [ids.slice(2), 2]);
});

test('a stream has the request to approve, which is listed, shown, and decided once', async ({
  real,
  client,
  servers,
}) => {
  const run = client.stream('Run', { prompt: 'go', tool_servers: ['files'] }, { token: 'run' });
  const id = await run.runId;
  const asked = () => run.updates.filter(({ event }) => event?.type === 'run.tool_requested');
  await waitFor('the first request', () => asked().length === 1);
  const { approvals } = await client.ask('Approvals', {}, approve);
  const [waiting] = approvals.map(fieldsOf);
  assert.equal([waiting], (await real.get('/v1/approvals')).json.approvals.map(withoutNull));
  assert.equal(
    [waiting.id, waiting.run, waiting.tool, waiting.description, waiting.arguments],
    [`${id}.1`, id, 'write', 'Writes.', '{"a":1}'],
  );
  assert.equal(fieldsOf(await client.ask('GetApproval', { id: waiting.id }, approve)), waiting);
  assert.equal(servers.begun, []);
  await client.ask('Decide', { id: waiting.id, decision: 'allow' }, approve);
  await waitFor('the second request', () => asked().length === 2);
  const late = await client.refusal('Decide', { id: waiting.id, decision: 'deny' }, approve);
  assert.equal([late.code, codeOf(late)], [status.FAILED_PRECONDITION, 'approval_decided']);
  const second = { id: `${id}.2`, decision: 'deny', reason: 'Not on a Friday.' };
  assert.is((await client.ask('Decide', second, approve)).state, 'denied');
  assert.is((await run.ended).code, status.OK);
  assert.equal(servers.begun, [`${id}.1`]);
  const { tool_calls } = await client.ask('Get', { id });
  assert.equal(
    tool_calls.map(({ state, decided_by }: Message) => [state, decided_by]),
    [
      ['finished', 'token:approve'],
      ['denied', 'token:approve'],
    ],
  );
  // What HTTP has of the calls, gRPC has.
  const ofTools = (type: string) => type.startsWith('run.tool_');
  const { text } = await real.get(`/v1/runs/${id}/events`);
  const overHttp = [...text.matchAll(/^data: (.*)$/gm)]
    .map(([, json = '']): Message => JSON.parse(json))
    .filter(({ type }) => ofTools(type ?? ''));
  assert.ok(overHttp.length >= 5);
  assert.equal(
    run.updates
      .filter(({ event }) => ofTools(event?.type ?? ''))
      .map(({ seq, event }) => [seq, event.type, event.at, JSON.parse(event.data_json)]),
    overHttp.map(({ seq, type, at, data }) => [seq, type, at, data]),
  );
});

test('a token with approve hears of each request and decision, and of nothing else', async ({
  real,
  client,
}) => {
  const abort = new AbortController();
  const response = await fetch(`${real.url}/v1/approvals/events`, {
    headers: { authorization: `Bearer ${TOKEN}` },
    signal: abort.signal,
  });
  let text = '';
  const reading = (async () => {
    for await (const bytes of response.body ?? []) text += Buffer.from(bytes).toString();
  })().catch(() => {});
  const overHttp = (): Message[] =>
    [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json));
  const watched = client.stream('WatchApprovals', {}, approve);
  const socket = new WebSocket(`${real.url.replace('http', 'ws')}/v1/approvals/events`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const overSocket: Message[] = [];
  socket.on('message', (data) => overSocket.push(JSON.parse(String(data))));
  const each = () => [watched.updates, overHttp(), overSocket];
  const all = (what: string, holds: (last: Message) => boolean) =>
    waitFor(what, () => each().every((messages) => holds(messages.at(-1) ?? {})));
  await waitFor('the messages of now', () => each().every(({ length }) => length === 1));
  assert.equal(overHttp(), [{ approvals: [] }]);
  const secret = { prompt: 'the secret', tool_servers: ['files'] };
  const run = client.stream('Run', secret, { token: 'run' });
  const id = await run.runId;
  await all('the first request', ({ approvals }) => approvals?.length === 1);
  const shown = (await real.get('/v1/approvals')).json.approvals.map(withoutNull);
  assert.equal(watched.updates.at(-1)?.approvals.map(fieldsOf), shown);
  await client.ask('Decide', { id: `${id}.1`, decision: 'allow' }, approve);
  await all('the second request', ({ approvals }) => approvals?.[0]?.id === `${id}.2`);
  await client.ask('Decide', { id: `${id}.2`, decision: 'deny' }, approve);
  await all('nothing waits', ({ removed }) => removed?.[0] === `${id}.2`);
  assert.is((await run.ended).code, status.OK);
  for (const messages of each()) {
    const of = (name: 'approvals' | 'removed') =>
      messages.flatMap((message) => (message[name] ?? []).map((one: Message) => one.id ?? one));
    assert.equal(of('approvals'), [`${id}.1`, `${id}.2`], 'once each');
    assert.equal(of('removed'), [`${id}.1`, `${id}.2`], 'once each');
  }
  assert.not.match(
    `${text}${JSON.stringify([watched.updates, overSocket])}`,
    /secret|Not carried|done/,
  );
  abort.abort();
  watched.call.cancel();
  socket.terminate();
  await Promise.all([reading, watched.ended, once(socket, 'close')]);
  for (const token of ['read', 'run']) {
    const refused = client.stream('WatchApprovals', {}, { token });
    assert.is((await refused.ended).code, status.PERMISSION_DENIED);
  }
});

test('a token decides with the scope approve alone, and `always` needs admin', async ({
  client,
}) => {
  const run = client.stream('Run', { prompt: 'go', tool_servers: ['files'] }, { token: 'run' });
  const id = `${await run.runId}.1`;
  const waits = async () => (await client.ask('Approvals')).approvals.length === 1;
  await waitFor('the request', waits);
  const allow = { id, decision: 'allow' };
  for (const token of ['read', 'run'])
    for (const method of ['Approvals', 'GetApproval', 'Decide'])
      assert.is((await client.refusal(method, allow, { token })).code, status.PERMISSION_DENIED);
  const always = { ...allow, always: true };
  const refused = await client.refusal('Decide', always, approve);
  assert.is(refused.code, status.PERMISSION_DENIED);
  assert.ok(await waits(), 'nothing was decided');
  await client.ask('Decide', always, { token: 'admin' });
  assert.is((await run.ended).code, status.OK);
  const { tool_calls } = await client.ask('Get', { id: await run.runId });
  assert.equal(
    tool_calls.map(({ decided_by }: Message) => decided_by),
    ['token:admin', 'policy'],
  );
});

test('a decision that says nothing, or fits no call, is refused by name', async ({ client }) => {
  const run = client.stream('Run', { prompt: 'go', tool_servers: ['files'], detach: true });
  const id = `${await run.runId}.1`;
  await waitFor('the request', async () => (await client.ask('Approvals')).approvals.length === 1);
  for (const [request, param] of [
    [{ id }, 'decision'],
    [{ id, decision: 'perhaps' }, 'decision'],
    [{ id, decision: 'repeat' }, 'decision'],
    [{ decision: 'allow' }, 'id'],
  ] as const) {
    const refused = await client.refusal('Decide', request);
    assert.is(refused.code, status.INVALID_ARGUMENT);
    assert.is(detailsOf(refused).ErrorInfo.metadata.param, param);
  }
  const unknown = await client.refusal('GetApproval', { id: 'run_nothing.1' });
  assert.equal([unknown.code, codeOf(unknown)], [status.NOT_FOUND, 'approval_unknown']);
});

test.run();
