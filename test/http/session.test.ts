import { createHmac } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { type Answer, ask, TOKEN } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** Signing in, and what a cookie is good for. */
const test = suite('sessions');
let real: Real;

test.before.each(async () => {
  real = await bootReal();
});
test.after.each(() => real.close());

const signIn = (body: object | string, headers = {}) => ask(`${real.url}/v1/session`, { method: 'POST', body, headers });
const cookieOf = ({ headers }: Answer) => (headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '';
const port = () => real.url.split(':').at(-1);
const with_ = (cookie: string, path: string, method = 'GET', headers: Record<string, string> = {}, body?: object) =>
  ask(`${real.url}${path}`, { method, headers: { cookie, ...headers }, ...(body === undefined ? {} : { body }) });

test('a ticket signs in once, with a cookie that scripts cannot read and other sites cannot send', async () => {
  const ticket = real.sessions.ticket();
  const first = await signIn({ ticket });
  assert.is(first.status, 204);
  assert.match(
    String(first.headers['set-cookie']?.[0]),
    new RegExp(`^svc_session_${port()}=\\d+\\.[\\w-]{43}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200$`),
  );
  assert.is((await with_(cookieOf(first), '/v1/session')).status, 204);
  assert.is((await with_(cookieOf(first), '/v1/runs')).status, 200);
  const second = await signIn({ ticket });
  assert.is(second.status, 401);
  assert.is(second.json.error.code, 'unauthorised');
  assert.is(second.headers['set-cookie'], undefined);
});

test('a wrong ticket, one that is too old, and a wrong token are refused; the token signs in', async () => {
  const ticket = real.sessions.ticket();
  assert.is((await signIn({ ticket: `${ticket}x` })).status, 401);
  assert.is((await signIn({ ticket: 'ü' })).status, 401);
  real.time.now += 60_000;
  assert.is((await signIn({ ticket })).status, 401);
  assert.is((await signIn({ token: 'wrong' })).status, 401);
  assert.is((await signIn({ token: TOKEN })).status, 204);
});

test('what is no sign-in is refused without being looked at further', async () => {
  for (const body of [{}, { ticket: 'a', token: 'b' }, { ticket: 1 }, { tickets: 'a' }, [], { ticket: null }, { ticket: 'x'.repeat(600) }])
    assert.is((await signIn(body)).status, 400, JSON.stringify(body));
  assert.is((await signIn('{', { 'content-type': 'application/json' })).status, 400);
  assert.is((await signIn({ ticket: 'x'.repeat(10_000) })).status, 413);
  assert.is((await signIn({ token: TOKEN }, { origin: 'http://evil.example' })).status, 403);
});

test('open tickets have a bound, and room comes back when they are too old', () => {
  for (let count = 0; count < 16; count += 1) real.sessions.ticket();
  assert.throws(
    () => real.sessions.ticket(),
    (error: SvcError) => error.code === 'busy',
  );
  real.time.now += 60_000;
  assert.is(real.sessions.ticket().length, 43);
});

test('a cookie ends in its time, and cannot be made longer or by somebody without the token', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  const [name, value = ''] = cookie.split('=');
  const [expiry, seal] = value.split('.');
  const forged = (secret: string, until: string) => `${until}.${createHmac('sha256', secret).update(`session.${until}`).digest('base64url')}`;
  const later = String(Number(expiry) + 1);
  for (const bad of [`${later}.${seal}`, `${expiry}.`, value.slice(0, -1), `${value}A`, `0${value}`, forged('other', later), '', '.', 'x'.repeat(5000)])
    assert.is((await with_(`${name}=${bad}`, '/v1/session')).status, 401, bad.slice(0, 80));
  assert.is((await with_(`${name}=${forged(TOKEN, later)}`, '/v1/session')).status, 204, 'the form is the one that is known');
  assert.is((await with_(`svc_session_1=${value}`, '/v1/session')).status, 401, 'of another port');
  assert.is((await with_(`a=b; ${name}=wrong; ${cookie}; c="d"`, '/v1/session')).status, 204, 'among others');
  real.time.now += 43_200_000;
  assert.is((await with_(cookie, '/v1/session')).status, 401);
});

test('a cookie is good after the daemon was started again, with the same token', async () => {
  const cookie = cookieOf(await signIn({ ticket: real.sessions.ticket() }));
  const other = await bootReal();
  const moved = cookie.replace(/svc_session_\d+/, `svc_session_${other.url.split(':').at(-1)}`);
  assert.is((await ask(`${other.url}/v1/session`, { headers: { cookie: moved } })).status, 204);
  await other.close();
});

test('with a cookie only our own page can change anything', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  const post = (headers: Record<string, string>) => with_(cookie, '/v1/runs', 'POST', headers, { prompt: 'hello' });
  const missing = await post({});
  assert.is(missing.status, 403);
  assert.is(missing.json.error.code, 'forbidden_origin');
  assert.is((await post({ origin: 'https://app.example' })).status, 403, 'an origin that is allowed is not our own');
  assert.is((await post({ origin: 'null' })).status, 403);
  assert.is((await post({ origin: 'http://127.0.0.1:1' })).status, 403);
  assert.is((await post({ origin: real.url })).status, 202);
  assert.is((await with_(cookie, '/v1/runs', 'GET', { origin: 'https://app.example' })).status, 403, 'another page does not read by it');
  assert.is((await with_(cookie, '/v1/runs', 'GET', { 'sec-fetch-site': 'same-site' })).status, 403, 'nor does one at another port');
  assert.is((await with_(cookie, '/v1/runs', 'GET', { 'sec-fetch-site': 'same-origin' })).status, 200);
});

test('a wrong token is not made good by a cookie, and the token needs no Origin', async () => {
  const cookie = cookieOf(await signIn({ token: TOKEN }));
  assert.is((await with_(cookie, '/v1/session', 'GET', { authorization: 'Bearer wrong' })).status, 401);
  assert.is((await with_('', '/v1/runs', 'POST', { authorization: `Bearer ${TOKEN}` }, { prompt: 'hello' })).status, 202);
});

test('signing out takes the cookie away', async () => {
  const out = await ask(`${real.url}/v1/session`, { method: 'DELETE' });
  assert.is(out.status, 204);
  assert.match(String(out.headers['set-cookie']?.[0]), /^svc_session_\d+=; HttpOnly; SameSite=Strict; Path=\/; Max-Age=0$/);
  const wrong = await ask(`${real.url}/v1/session`, { method: 'PUT' });
  assert.is(wrong.status, 405);
  assert.is(wrong.headers.allow, 'GET, HEAD, POST, DELETE, OPTIONS');
});

test.run();
