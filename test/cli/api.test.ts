import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { type Home, makeHome } from '../helpers/svc.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** The interface over the local socket, and the token of those who come by TCP. */
const test = suite<{ home: Home; life: Life; url: string }>('svc api and svc token');

test.before(async (context) => {
  context.home = makeHome();
  context.life = await serve(context.home);
  context.url = (await context.life.ask((client) => client.call('status'))).addresses.http ?? '';
});
test.after(async ({ home, life }) => {
  await life.stop(0);
  await home.close();
});

test('a method that HTTP does not have is refused with those that it has', async ({ home }) => {
  const { code, stderr } = await home.svc(['api', 'FOO', '/v1/runs']);
  assert.is(code, 2);
  assert.is(
    stderr,
    'error: "FOO" is not a method, such as GET or POST.\n' +
      'hint: There are: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS\n',
  );
});

test('a route answers on stdout, with the token level and without the token', async ({ home }) => {
  const runs = await home.svc(['api', 'GET', '/v1/runs']);
  assert.equal([runs.code, runs.stderr], [0, '']);
  assert.equal(JSON.parse(runs.stdout), { runs: [], next: null });
  const report = await home.svc(['api', 'get', '/v1/runtime/health']);
  assert.ok('pid' in JSON.parse(report.stdout).engine, 'the whole report');
});

test('a body comes from the argument, a file or stdin; events come as lines', async ({ home }) => {
  const body = JSON.stringify({ prompt: 'What is a run?' });
  const streamed = await home.svc(['api', 'POST', '/v1/runs', '--data', body, '--stream']);
  assert.is(streamed.code, 0);
  assert.match(streamed.stdout, /(?:^|\n)id: \d+\nevent: run\.accepted\n/);
  assert.match(streamed.stdout, /event: run\.completed\n/);
  const file = join(home.folder, 'body.json');
  writeFileSync(file, body);
  const [byFile, byStdin] = [
    await home.svc(['api', 'POST', '/v1/runs', '-d', `@${file}`]),
    await home.svc(['api', 'POST', '/v1/runs', '-d', '-'], { stdin: body }),
  ];
  for (const { code, stdout } of [byFile, byStdin])
    assert.equal([code, JSON.parse(stdout).prompt], [0, 'What is a run?']);
});

test('third-party APIs answer too, whole and as a stream', async ({ home }) => {
  const ask = (path: string, fields: object) => {
    const body = { model: 'local/svc-mini', messages: [{ role: 'user', content: 'Hi' }] };
    return home.svc(['api', 'POST', path, '-d', JSON.stringify({ ...body, ...fields })]);
  };
  const chat = await ask('/v1/chat/completions', {});
  assert.is(JSON.parse(chat.stdout).object, 'chat.completion');
  const streamed = await ask('/v1/chat/completions', { stream: true });
  assert.match(streamed.stdout, /^data: \{/);
  assert.match(streamed.stdout, /data: \[DONE\]\n\n$/);
  const message = await ask('/v1/messages', { max_tokens: 8 });
  assert.is(JSON.parse(message.stdout).type, 'message');
});

test('an error ends the command with its own exit code, and stdout is empty', async ({ home }) => {
  for (const [args, exit, code] of [
    [['GET', '/v1/runs/run_x'], 2, 'run_unknown'],
    [['GET', '/nowhere'], 2, 'route_unknown'],
    [['GET', '/v1/events'], 2, 'upgrade_required'],
    [['POST', '/v1/runs', '--data', '{"prompt":"x","provider":"nobody"}'], 7, 'provider_unknown'],
    [['POST', '/v1/embeddings', '-d', '{"model":"nobody/m"}'], 2, 'invalid_request'],
    [['POST', '/v1/messages', '-d', '{"model":"m"}'], 2, 'invalid_request'],
    [['POST', '/api/chat', '-d', '{"messages":[]}'], 2, 'invalid_request'],
    [['POST', '/v1/runs', '--data', '@/nonexistent'], 2, 'usage'],
    [['GET', 'v1/runs'], 2, 'usage'],
    [['G T', '/v1/runs'], 2, 'usage'],
  ] as const) {
    const outcome = await home.svc(['api', ...args, '--json']);
    assert.equal(
      [outcome.code, outcome.stdout, JSON.parse(outcome.stderr).error.code],
      [exit, '', code],
      args.join(' '),
    );
  }
});

test('without a daemon it says so', async () => {
  const home = makeHome();
  const outcome = await home.svc(['api', 'GET', '/livez']);
  assert.is(outcome.code, 3);
  assert.match(outcome.stderr, /daemon is not running/);
  await home.close();
});

test('a new token counts at once, the old one no more, and what it let in ends', async ({
  home,
  url,
}) => {
  const status = async (token: string) =>
    (await fetch(`${url}/v1/runs`, { headers: { authorization: `Bearer ${token}` } })).status;
  const old = (await home.svc(['token'])).stdout.trim();
  assert.is(await status(old), 200);
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/events?follow=1`, {
    headers: { authorization: `Bearer ${old}` },
  });
  await new Promise((resolve) => socket.once('open', resolve));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const session = await fetch(`${url}/v1/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: old }),
  });
  const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? '';
  const signedIn = async () =>
    (await fetch(`${url}/v1/session`, { headers: { cookie, 'sec-fetch-site': 'same-origin' } }))
      .status;
  const before = await signedIn();
  const fresh = (await home.svc(['token', 'rotate'])).stdout.trim();
  assert.is(await closed, 1008);
  assert.equal([await status(old), await status(fresh)], [401, 200]);
  assert.equal([before, await signedIn()], [204, 401]);
  assert.is((await home.svc(['token'])).stdout.trim(), fresh);
  assert.is(readFileSync(home.paths.token, 'utf8').trim(), fresh);
  const log = (await home.svc(['logs', '--json'])).stdout;
  assert.match(log, 'the token was replaced');
  const [, short] =
    /console session ([\w-]{8}) began: signed in from \S*127\.0\.0\.1 /.exec(log) ?? [];
  assert.ok(short, log);
  assert.ok(log.includes(`console session ${short} ended. The token was changed.`), log);
  const secrets = [old, fresh, cookie.split('=')[1] ?? ''];
  for (const secret of secrets) assert.not.ok(secret === '' || log.includes(secret));
});

test('a token is changed without a daemon too, and a start tightens a file that others can read', async () => {
  const home = makeHome();
  assert.is((await home.svc(['token', 'rotate'])).code, 3, 'there is none yet');
  await (await serve(home)).stop(0);
  const old = readFileSync(home.paths.token, 'utf8');
  const fresh = await home.svc(['token', 'rotate']);
  assert.is(fresh.code, 0);
  assert.is.not(readFileSync(home.paths.token, 'utf8'), old);
  assert.is(statSync(home.paths.token).mode & 0o777, 0o600);
  chmodSync(home.paths.token, 0o644);
  const life = await serve(home);
  assert.is(statSync(home.paths.token).mode & 0o777, 0o600);
  assert.is((await life.ask((client) => client.call('token'))).token, fresh.stdout.trim());
  await life.stop(0);
  await home.close();
  assert.is((await makeHome().svc(['token', 'new'])).code, 2);
});

test.run();
