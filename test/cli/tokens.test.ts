import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { runtimeClient } from '../grpc/runtime-client.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import type { Home } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { ask } from '../transport/http/boot.ts';

/** Tokens of programs, from the command line to each listener of the built daemon. */
const test = suite<{ home: PausedHome; life: Life; http: string; grpc: string }>('svc token');

test.before(async (context) => {
  context.home = await makePausedHome();
  context.life = await serve(context.home);
  await locate(context);
});
test.after(async ({ home, life }) => {
  await life.stop(0);
  await home.close();
});

async function locate(context: { life: Life; http: string; grpc: string }): Promise<void> {
  const { addresses } = await context.life.ask((client) => client.call('status'));
  context.http = addresses.http ?? '';
  context.grpc = addresses.grpc ?? '';
}

async function create(home: Home, ...args: string[]): Promise<string> {
  const outcome = await home.svc(['token', 'create', ...args]);
  assert.is(outcome.code, 0, outcome.stderr);
  return outcome.stdout.trim();
}

const PERMISSION_DENIED = 7;
const RESOURCE_EXHAUSTED = 8;
const UNAUTHENTICATED = 16;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const RUN = { prompt: 'What is a run?', max_tokens: 4, provider: 'local' };

test('the list shows scopes, bounds and the last use, and no token', async ({ home, http }) => {
  assert.match((await home.svc(['token', 'list'])).stderr, /No program has its own token/);
  const token = await create(home, '--name', 'ci', '--rate', '60/min', '--concurrent', '4');
  const listed = async () =>
    JSON.parse((await home.svc(['token', 'list', '--json'])).stdout).tokens;
  const [before] = await listed();
  assert.equal(
    [before.name, before.scope, before.rate, before.concurrent, before.last_used],
    ['ci', 'run', 60, 4, null],
  );
  await ask(`${http}/v1/runs`, { headers: bearer(token) });
  const [after] = await listed();
  assert.ok(Date.parse(after.last_used) >= Date.parse(after.created_at));
  const { stdout } = await home.svc(['token', 'list']);
  assert.match(stdout, /^ci +run +60\/min +4 /m);
  assert.ok(!stdout.includes(token));
  assert.is(statSync(home.paths.tokens).mode & 0o777, 0o600);
});

test('each scope reaches what it includes, over HTTP and gRPC, and its run has its name', async ({
  home,
  http,
  grpc,
}) => {
  const tokens = {
    read: await create(home, '--name', 'monitor', '--scope', 'read'),
    run: await create(home, '--name', 'editor'),
    admin: await create(home, '--name', 'ops', '--scope', 'admin'),
  };
  const send = (token: string, method: string, path: string, body?: object) =>
    ask(http + path, { method, headers: bearer(token), ...(body ? { body } : {}) });
  const run = await send(tokens.run, 'POST', '/v1/runs', RUN);
  assert.is(run.status, 202);
  assert.is(run.json.asked_by, 'editor');
  const path = `/v1/runs/${run.json.id}`;
  const own = await send((await home.svc(['token'])).stdout.trim(), 'POST', '/v1/runs', RUN);
  assert.is(own.json.asked_by, undefined);

  for (const token of Object.values(tokens)) {
    for (const read of ['/v1/runs', path, `${path}/why`, '/v1/models'])
      assert.is((await send(token, 'GET', read)).status, 200, read);
    assert.is((await send(token, 'GET', `${path}/events`)).status, 200);
  }
  for (const whole of ['/v1/runtime/state', '/v1/machines']) {
    const statuses = [tokens.read, tokens.admin, tokens.run].map((token) =>
      send(token, 'GET', whole),
    );
    assert.equal(
      (await Promise.all(statuses)).map(({ status }) => status),
      [200, 200, 403],
    );
  }
  const refused = await send(tokens.read, 'POST', '/v1/runs', RUN);
  assert.equal([refused.status, refused.json.error.code], [403, 'scope_insufficient']);
  assert.match(refused.json.error.message, /monitor has the scope read.*needs run/);
  assert.equal(refused.json.error.details, { scope: 'read', needed: 'run' });
  assert.is((await send(tokens.read, 'POST', `${path}/cancel`)).status, 403);
  const stop = { type: 'stop_requested' };
  for (const token of [tokens.read, tokens.run]) {
    const { status, json } = await send(token, 'POST', '/v1/runtime/events', stop);
    assert.equal([status, json.error.details.needed], [403, 'admin']);
  }

  const clients = Object.values(tokens).map((token) => runtimeClient(grpc, { token }));
  const [reader, runner] = clients;
  assert.ok(reader !== undefined && runner !== undefined);
  for (const client of clients)
    assert.is((await client.ask('Get', { id: run.json.id })).id, run.json.id);
  assert.is((await reader.stream('Run', RUN).ended).code, PERMISSION_DENIED);
  assert.is((await reader.refusal('Cancel', { id: run.json.id })).code, PERMISSION_DENIED);
  assert.is((await runner.refusal('Stop')).code, PERMISSION_DENIED);
  const called = runner.stream('Run', RUN);
  assert.is((await called.ended).code, 0);
  assert.is((await runner.ask('Get', { id: await called.runId })).asked_by, 'editor');
  for (const client of clients) client.close();
});

test('a token lives over a restart until it is revoked, and its streams end with it', async (context) => {
  const { home } = context;
  const token = await create(home, '--name', 'keeper', '--scope', 'admin');
  await context.life.stop(0);
  context.life = await serve(home);
  await locate(context);
  const status = async (given: string) =>
    (await ask(`${context.http}/v1/runs`, { headers: bearer(given) })).status;
  assert.is(await status(token), 200);
  const own = (await home.svc(['token'])).stdout.trim();
  await home.svc(['token', 'rotate']);
  assert.equal([await status(token), await status(own)], [200, 401]);

  const follower = new WebSocket(`${context.http.replace('http', 'ws')}/v1/logs?follow=1`, {
    headers: bearer(token),
  });
  await once(follower, 'open');
  const closed = once(follower, 'close');
  const client = runtimeClient(context.grpc, { token });
  const watched = client.stream('WatchStatus');
  await waitFor('the state', () => watched.updates.length > 0);
  const revoked = await home.svc(['token', 'revoke', 'keeper']);
  assert.is(
    revoked.stdout,
    'Revoked the token keeper. Its requests have ended, and 0 runs were cancelled.\n',
  );
  assert.is((await closed)[0], 1008);
  const end = await watched.ended;
  assert.equal([end.code, end.details], [UNAUTHENTICATED, 'The token keeper was revoked.']);
  assert.is(await status(token), 401);
  client.close();
  const text =
    readFileSync(home.paths.tokens, 'utf8') + (await home.svc(['logs', '--json'])).stdout;
  assert.ok(!text.includes(token));
});

test('what a token asked is cancelled with it, unless its runs are kept', async ({
  home,
  life,
  http,
}) => {
  const long = { prompt: 'Write a long story.' };
  const started = async (token: string) => {
    const ids: string[] = [];
    for (let each = 0; each < 2; each += 1) {
      const { json } = await ask(`${http}/v1/runs`, {
        method: 'POST',
        headers: bearer(token),
        body: long,
      });
      ids.push(json.id);
    }
    return ids;
  };
  const stateOf = async (id: string) =>
    (await life.ask((client) => client.call('run.get', { id }))).state;
  const ids = await started(await create(home, '--name', 'asker'));
  const kept = await started(await create(home, '--name', 'other'));
  // Its answers do not come, so all of them are in progress.
  const revoked = await home.svc(['token', 'revoke', 'asker', '--json']);
  assert.is(JSON.parse(revoked.stdout).cancelled, 2);
  assert.equal(await Promise.all(ids.map(stateOf)), ['cancelled', 'cancelled']);
  assert.is(
    (await home.svc(['token', 'revoke', 'other', '--keep-runs'])).stdout,
    'Revoked the token other. Its requests have ended. Its runs continue.\n',
  );
  for (const id of kept)
    assert.ok(['queued', 'starting', 'streaming'].includes(await stateOf(id)), await stateOf(id));
});

test('a bound on requests answers 429 with the time to wait', async ({ home, http, grpc }) => {
  const few = await create(home, '--name', 'few', '--rate', '2/min');
  const get = () => ask(`${http}/v1/models`, { headers: bearer(few) });
  assert.equal([(await get()).status, (await get()).status], [200, 200]);
  const late = await get();
  assert.equal([late.status, late.json.error.code], [429, 'rate_limited']);
  const wait = Number(late.headers['retry-after']);
  assert.ok(wait >= 1 && wait <= 30, String(wait));
  const client = runtimeClient(grpc, { token: few });
  assert.is((await client.refusal('Models')).code, RESOURCE_EXHAUSTED);
  client.close();

  const one = await create(home, '--name', 'one', '--scope', 'read', '--concurrent', '1');
  const holder = runtimeClient(grpc, { token: one });
  const watched = holder.stream('WatchStatus');
  await waitFor('the state', () => watched.updates.length > 0);
  const second = await ask(`${http}/v1/models`, { headers: bearer(one) });
  assert.equal([second.status, second.headers['retry-after']], [429, '1']);
  watched.call.cancel();
  await watched.ended;
  await waitFor(
    'the place is free',
    async () => (await ask(`${http}/v1/models`, { headers: bearer(one) })).status === 200,
  );
  holder.close();
});

test('a wrong command line, name or bound is refused', async ({ home }) => {
  await create(home, '--name', 'a');
  const listed = async () =>
    JSON.parse((await home.svc(['token', 'list', '--json'])).stdout).tokens.length;
  const before = await listed();
  for (const [args, code] of [
    [['create'], 2],
    [['create', '--name', 'b', '--scope', 'all'], 2],
    [['create', '--name', 'b', '--rate', '60'], 2],
    [['create', '--name', 'b', '--rate', '0/min'], 2],
    [['create', '--name', 'b', '--concurrent', '0'], 2],
    [['create', '--name', '../b'], 2],
    [['create', '--name', 'a'], 2],
    [['revoke'], 2],
    [['revoke', 'b'], 2],
    [['new'], 2],
  ] as [string[], number][]) {
    const outcome = await home.svc(['token', ...args]);
    assert.is(outcome.code, code, `${args.join(' ')}: ${outcome.stderr}`);
    assert.is(outcome.stdout, '');
  }
  assert.is(await listed(), before);
});

test.run();
