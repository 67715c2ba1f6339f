import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import type { SvcError } from '../../../src/errors.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { createSessions } from '../../../src/transport/auth/session.ts';
import { sessionFile } from '../../../src/transport/auth/session-file.ts';
import { type Answer, ask, boot, TOKEN } from '../http/boot.ts';
import { bootReal, type Real } from '../http/real.ts';

/** Signing in, and the validity of a cookie. */
const test = suite('sessions');
let real: Real;

test.before.each(async () => {
  real = await bootReal();
});
test.after.each(() => real.close());

const signIn = (body: object | string, headers = {}) =>
  ask(`${real.url}/v1/session`, { method: 'POST', body, headers });
const cookieOf = ({ headers }: Answer) => (headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '';
const port = () => real.url.split(':').at(-1);
/** As our own page sends it: the browser says so. */
const with_ = (
  cookie: string,
  path: string,
  method = 'GET',
  headers: Record<string, string> = {},
  body?: object,
) =>
  ask(`${real.url}${path}`, {
    method,
    headers: { cookie, 'sec-fetch-site': 'same-origin', ...headers },
    ...(body === undefined ? {} : { body }),
  });

test('a ticket signs in once, with a cookie that scripts cannot read and other sites cannot send', async () => {
  const ticket = real.sessions.ticket();
  const first = await signIn({ ticket });
  assert.is(first.status, 200);
  assert.match(
    String(first.headers['set-cookie']?.[0]),
    new RegExp(
      `^svc_session_${port()}=[\\w-]{22}\\.\\d+\\.[\\w-]{43}; HttpOnly; SameSite=Strict; Path=/v1; Max-Age=43200$`,
    ),
  );
  assert.is((await with_(cookieOf(first), '/v1/session')).status, 204);
  assert.is((await with_(cookieOf(first), '/v1/runs')).status, 200);
  const second = await signIn({ ticket });
  assert.is(second.status, 401);
  assert.is(second.json.error.code, 'unauthorised');
  assert.is(second.headers['set-cookie'], undefined);
});

test('a wrong ticket, an expired one, and a wrong token are refused; the token signs in', async () => {
  const ticket = real.sessions.ticket();
  assert.is((await signIn({ ticket: `${ticket}x` })).status, 401);
  assert.is((await signIn({ ticket: 'ü' })).status, 401);
  real.time.now += 60_000;
  assert.is((await signIn({ ticket })).status, 401);
  assert.is((await signIn({ token: 'wrong' })).status, 401);
  assert.is((await signIn({ token: TOKEN })).status, 200);
});

test('a body that is no sign-in is refused', async () => {
  for (const body of [
    {},
    { ticket: 'a', token: 'b' },
    { ticket: 1 },
    { tickets: 'a' },
    [],
    { ticket: null },
    { ticket: 'x'.repeat(600) },
  ])
    assert.is((await signIn(body)).status, 400, JSON.stringify(body));
  assert.is((await signIn('{', { 'content-type': 'application/json' })).status, 400);
  assert.is((await signIn({ ticket: 'x'.repeat(10_000) })).status, 413);
  assert.is((await signIn({ token: TOKEN }, { origin: 'http://evil.example' })).status, 403);
});

test('open tickets have a bound, and expired ones free their room', () => {
  for (let count = 0; count < 16; count += 1) real.sessions.ticket();
  assert.throws(
    () => real.sessions.ticket(),
    (error: SvcError) => error.code === 'busy',
  );
  real.time.now += 60_000;
  assert.is(real.sessions.ticket().length, 43);
});

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

test('a cookie expires, and a changed one is invalid', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  const [name, value = ''] = cookie.split('=');
  const [id, expiry, seal] = value.split('.');
  const later = String(Number(expiry) + 1);
  for (const bad of [
    `${id}.${later}.${seal}`,
    `${id}.${expiry}.`,
    value.slice(0, -1),
    `${value}A`,
    `${id?.startsWith('x') ? 'y' : 'x'}${value.slice(1)}`,
    '',
    '.',
    '..',
    'x'.repeat(5000),
  ])
    assert.is((await with_(`${name}=${bad}`, '/v1/session')).status, 401, bad.slice(0, 80));
  // The last letter has unused bits, so four letters decode to the same bytes.
  for (const last of LETTERS) {
    const changed = `${value.slice(0, -1)}${last}`;
    const expected = changed === value ? 204 : 401;
    assert.is((await with_(`${name}=${changed}`, '/v1/session')).status, expected, last);
  }
  assert.is((await with_(`svc_session_1=${value}`, '/v1/session')).status, 401, 'of another port');
  assert.is(
    (await with_(`a=b; ${name}=wrong; ${cookie}; c="d"`, '/v1/session')).status,
    204,
    'among others',
  );
  real.time.now += 43_200_000;
  assert.is((await with_(cookie, '/v1/session')).status, 401);
});

test('sessions and sign-outs outlive the daemon, and the file has no secret', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'svc-sessions-')), 'sessions.json');
  const lives: Real[] = [];
  const start = async () => {
    const life = await bootReal({ sessionFile: sessionFile(path) });
    lives.push(life);
    return life;
  };
  const moved = (cookie: string, life: Real) =>
    cookie.replace(/svc_session_\d+/, `svc_session_${life.url.split(':').at(-1)}`);
  const status = async (cookie: string, life: Real) =>
    (
      await ask(`${life.url}/v1/session`, {
        headers: { cookie: moved(cookie, life), 'sec-fetch-site': 'same-origin' },
      })
    ).status;
  const first = await start();
  const sign = async () =>
    cookieOf(await ask(`${first.url}/v1/session`, { method: 'POST', body: { token: TOKEN } }));
  const [kept, left] = [await sign(), await sign()];
  assert.is(
    (
      await ask(`${first.url}/v1/session`, {
        method: 'DELETE',
        headers: { cookie: left, origin: first.url },
      })
    ).status,
    204,
  );
  assert.is(await status(left, first), 401, 'a sign-out ends the session at once');
  const second = await start();
  assert.is(await status(kept, second), 204);
  assert.is(await status(left, second), 401);
  assert.is(statSync(path).mode & 0o777, 0o600);
  assert.not.ok(readFileSync(path, 'utf8').includes(kept.split('.').at(-1) ?? ''));
  writeFileSync(path, '{"sessions":[{"id":1},null,"x"');
  assert.is(
    await status(kept, await start()),
    401,
    'a list that cannot be read signs everybody out',
  );
  for (const life of lives) await life.close();
});

test('the log says who signed in and how the session ended, without a secret', async () => {
  const lines: string[] = [];
  const note = (line: string) => void lines.push(line);
  const limits = { ...defaultLimits, console_sessions: 1 };
  const sessions = createSessions({ token: () => TOKEN, limits, note });
  const ticket = sessions.ticket();
  const first = await sessions.open({ ticket }, '192.0.2.7');
  assert.is(await sessions.open({ token: 'wrong' }, '192.0.2.8'), null);
  const second = await sessions.open({ token: TOKEN }, '192.0.2.9');
  const [one, two] = [first, second].map((opened) => opened?.id.slice(0, 8));
  assert.equal(lines, [
    `console session ${one} began: signed in from 192.0.2.7 with a ticket`,
    `console session ${one} ended. Newer sessions replaced it.`,
    `console session ${two} began: signed in from 192.0.2.9 with the token`,
  ]);
  await sessions.closeAll();
  assert.is(lines.at(-1), `console session ${two} ended. The token was changed.`);
});

test('a session lasts as long as the limit says', async () => {
  const now = 1_800_000_000_000;
  const limits = { ...defaultLimits, session_ms: 5_000 };
  const sessions = createSessions({ token: () => TOKEN, limits, now: () => now });
  const opened = await sessions.open({ token: TOKEN }, '192.0.2.7');
  assert.equal([sessions.max_age_s, opened?.expires_at], [5, now + 5_000]);
  await sessions.closeAll();
});

test('live sessions have a bound, and one more ends the oldest', async () => {
  const first = cookieOf(await signIn({ token: TOKEN }));
  const ended = real.sessions.find({
    headers: { cookie: first },
    socket: { localPort: Number(port()) },
  } as never);
  for (let count = 0; count < 63; count += 1) await real.sessions.open({ token: TOKEN });
  assert.is((await with_(first, '/v1/session')).status, 204);
  await real.sessions.open({ token: TOKEN });
  assert.is((await with_(first, '/v1/session')).status, 401);
  assert.is(ended?.aborted, true);
});

for (const [name, end] of [
  ['signing out', (cookie: string) => with_(cookie, '/v1/session', 'DELETE', { origin: real.url })],
  ['a new token', () => real.sessions.closeAll()],
] as const)
  test(`${name} ends what the session opened`, async () => {
    const cookie = cookieOf(await signIn({ token: TOKEN }));
    const run = await real.get('/v1/runs', { method: 'POST', body: { prompt: 'x' } });
    const stream = with_(cookie, `/v1/runs/${run.json.id}/events`);
    const socket = new WebSocket(`${real.url.replace('http', 'ws')}/v1/events?from=1&follow=1`, {
      headers: { cookie, origin: real.url },
    });
    const closed = once(socket, 'close');
    await once(socket, 'message');
    await end(cookie);
    assert.is((await closed)[0], 1008);
    assert.match((await stream).text, /event: stream\.closed\ndata: .*"unauthorised"/);
  });

test('a proof needs the secret, and is valid for one port and one nonce', async () => {
  const { json } = await signIn({ token: TOKEN });
  const nonce = 'n'.repeat(43);
  const prove = (by: string, value = nonce) =>
    ask(`${real.url}/v1/session/proof?by=${by}&nonce=${value}`);
  const expected = (key: Buffer, value = nonce) =>
    createHmac('sha256', key).update(`${port()}\n${value}`).digest('base64url');
  const derived = (secret: string, purpose: string) =>
    createHmac('sha256', secret).update(purpose).digest();
  assert.is(
    (await prove(`session.${json.id}`)).json.proof,
    expected(Buffer.from(json.key, 'base64url')),
  );
  assert.is((await prove('token')).json.proof, expected(derived(TOKEN, 'svc console token')));
  const ticket = real.sessions.ticket();
  const digest = createHash('sha256').update(ticket).digest('base64url');
  assert.is(
    (await prove(`ticket.${digest}`)).json.proof,
    expected(derived(ticket, 'svc console ticket')),
  );
  assert.is((await signIn({ ticket })).status, 200, 'a question does not use a ticket up');
  assert.is((await prove(`ticket.${digest}`)).status, 401);
  assert.is.not(
    (await prove('token', 'm'.repeat(43))).json.proof,
    (await prove('token')).json.proof,
  );
  const elsewhere = await bootReal();
  assert.is.not(
    (await ask(`${elsewhere.url}/v1/session/proof?by=token&nonce=${nonce}`)).json.proof,
    (await prove('token')).json.proof,
  );
  await elsewhere.close();
  for (const by of ['', 'session.', 'session.x', 'ticket.x', 'cookie', `session.${'x'.repeat(23)}`])
    assert.is((await prove(by)).status, 400, by);
  assert.is((await prove('token', 'short')).status, 400);
});

test('a daemon that leaves its port proves nothing any more', async () => {
  const http = await boot();
  const status = async () =>
    (await ask(`${http.url}/v1/session/proof?by=token&nonce=${'n'.repeat(43)}`)).status;
  const seen: Record<string, number> = {};
  for (const path of [
    'starting.opening',
    'ready',
    'stopping.draining',
    'stopping.closing',
    'stopped',
  ]) {
    http.runtime.bring(path);
    seen[path] = await status();
  }
  assert.equal(seen, {
    'starting.opening': 200,
    ready: 200,
    'stopping.draining': 200,
    'stopping.closing': 503,
    stopped: 503,
  });
  await http.close();
});

test('with a cookie only our own page can change anything', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  const post = (headers: Record<string, string>) =>
    with_(cookie, '/v1/runs', 'POST', headers, { prompt: 'hello' });
  const missing = await post({});
  assert.is(missing.status, 403);
  assert.is(missing.json.error.code, 'forbidden_origin');
  assert.is(
    (await post({ origin: 'https://app.example' })).status,
    403,
    'an origin that is allowed is not our own',
  );
  assert.is((await post({ origin: 'null' })).status, 403);
  assert.is((await post({ origin: 'http://127.0.0.1:1' })).status, 403);
  assert.is((await post({ origin: real.url })).status, 202);
  assert.is((await post({ origin: real.url, 'sec-fetch-site': 'same-site' })).status, 403);
  assert.is(
    (await with_(cookie, '/v1/runs', 'GET', { origin: 'https://app.example' })).status,
    403,
    'another page does not read by it',
  );
  for (const site of ['same-site', 'cross-site', 'none', ''])
    assert.is(
      (await with_(cookie, '/v1/runs', 'GET', { 'sec-fetch-site': site })).status,
      403,
      `${site} is not our own page`,
    );
  assert.is(
    (await ask(`${real.url}/v1/runs`, { headers: { cookie } })).status,
    403,
    'what is no browser does not read by it',
  );
  for (const upgrade of ['h2c', 'websocket']) {
    const lie = { cookie, origin: real.url, upgrade };
    assert.is(
      (await ask(`${real.url}/v1/runs`, { headers: lie })).status,
      403,
      `a header alone makes no ${upgrade} of a request`,
    );
  }
  assert.is((await with_(cookie, '/v1/runs')).status, 200);
});

test('a cookie does not excuse a wrong token, and the token needs no Origin', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  assert.is(
    (await with_(cookie, '/v1/session', 'GET', { authorization: 'Bearer wrong' })).status,
    401,
  );
  assert.is(
    (await with_('', '/v1/runs', 'POST', { authorization: `Bearer ${TOKEN}` }, { prompt: 'hello' }))
      .status,
    202,
  );
});

test('signing out removes the cookie', async () => {
  const out = await ask(`${real.url}/v1/session`, { method: 'DELETE' });
  assert.is(out.status, 204);
  assert.match(
    String(out.headers['set-cookie']?.[0]),
    /^svc_session_\d+=; HttpOnly; SameSite=Strict; Path=\/v1; Max-Age=0$/,
  );
  const wrong = await ask(`${real.url}/v1/session`, { method: 'PUT' });
  assert.is(wrong.status, 405);
  assert.is(wrong.headers.allow, 'GET, HEAD, POST, DELETE, OPTIONS');
});

test.run();
