import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { loginFetch } from '../../src/tools/login-fetch.ts';
import { failure } from '../helpers/failure.ts';
import { browse, loginServers } from '../helpers/login-servers.ts';
import {
  boot,
  call,
  endLater,
  endLogins,
  saved,
  soon,
  tokenRequests,
} from '../helpers/login-stage.ts';
import { waitFor } from '../helpers/wait.ts';

/** Logins at tool servers: a person signs in, and the daemon uses and refreshes the tokens. */

test.after.each(endLogins);

test('a server that asks for a login says so, is left alone, and works after the login', async () => {
  const { servers, remote, login, events } = await boot();
  const error = await failure(servers.tools('x', soon()));
  assert.equal([error.code, error.retryable], ['mcp_login_needed', false]);
  assert.match(error.message, /needs a login: svc mcp login x$/);
  const [{ state, code, reason, retry_at } = {}] = servers.list().servers;
  assert.equal([state, code, reason], ['open', 'mcp_login_needed', error.message]);
  assert.is(retry_at, null, 'no wait helps');
  const before = remote.headers.length;
  for (let n = 0; n < 3; n += 1)
    assert.is((await failure(servers.tools('x', soon()))).code, 'mcp_login_needed');
  assert.is(remote.headers.length, before, 'it is asked again');
  assert.equal(await events(1), ['mcp.created', 'mcp.start_requested', 'mcp.start_failed']);
  assert.ok(await login());
  servers.stop('x');
  assert.equal(
    (await servers.tools('x', soon())).map(({ tool }) => tool),
    ['say'],
  );
  assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
  const [authorize] = remote.asked.filter(({ path }) => path === '/authorize');
  const { code_challenge_method, resource, scope, redirect_uri, client_id } =
    authorize?.fields ?? {};
  assert.equal(
    [code_challenge_method, resource, scope, client_id],
    ['S256', remote.url, 'speak', 'client-1'],
  );
  assert.match(redirect_uri ?? '', /^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  assert.is(tokenRequests(remote)[0]?.fields.resource, remote.url);
});

for (const [what, age_ms] of [
  ['a token that ends soon', 3_590_000],
  ['a token that the server refuses', 0],
] as const)
  test(`${what} is refreshed once for all calls, and no one hears of it`, async () => {
    const { servers, remote, login, clock, kept, lines } = await boot();
    await login();
    await servers.tools('x', soon());
    const before = saved(kept.text);
    if (age_ms === 0) remote.access.clear();
    else clock.advance(age_ms);
    const all = await Promise.all([1, 2, 3, 4].map(() => servers.call('x', 'say', {}, call())));
    assert.equal(new Set(all.map(({ text }) => text)), new Set(['said']));
    assert.is(remote.said.length, 4);
    const refreshes = tokenRequests(remote).slice(1);
    assert.is(refreshes.length, 1);
    assert.equal(
      [refreshes[0]?.fields.refresh_token, refreshes[0]?.fields.resource],
      [before.refresh_token, remote.url],
    );
    const after = saved(kept.text);
    assert.not.equal(after.access_token, before.access_token);
    assert.not.equal(after.refresh_token, before.refresh_token);
    await waitFor('it is idle', () => servers.list().servers[0]?.state === 'ready.idle');
    const all_text = lines.join('\n');
    for (const { access_token, refresh_token } of [before, after])
      assert.not.ok(all_text.includes(access_token) || all_text.includes(refresh_token));
  });

test('a refused refresh needs a login again, and is not asked for twice', async () => {
  const { servers, remote, login, kept, lines, store, events } = await boot();
  await login();
  await servers.tools('x', soon());
  const { access_token, refresh_token } = saved(kept.text);
  remote.access.clear();
  remote.refresh.clear();
  const error = await failure(servers.call('x', 'say', {}, call()));
  assert.is(error.code, 'mcp_login_needed');
  assert.equal([remote.said.length, saved(kept.text).access_token], [0, undefined]);
  const needs = () => servers.list().servers[0]?.code === 'mcp_login_needed';
  await waitFor('the server needs a login', needs);
  await failure(servers.call('x', 'say', {}, call()));
  assert.is(tokenRequests(remote).length, 2);
  assert.ok((await events(1)).includes('mcp.ended'));
  const told = [
    ...lines,
    error.message,
    JSON.stringify(error.body()),
    JSON.stringify(servers.list()),
  ].join('\n');
  assert.not.ok(told.includes(access_token) || told.includes(refresh_token), told);
  await login();
  servers.stop('x');
  assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
  assert.ok(await store.read());
});

test('an authorization server that is away keeps the login', async () => {
  const { servers, remote, login, kept } = await boot();
  await login();
  await servers.tools('x', soon());
  const before = kept.text;
  remote.access.clear();
  let isAway = true;
  remote.does.instead = (path, res) => {
    if (path !== '/token' || !isAway) return false;
    res.writeHead(503).end(saved(before).refresh_token);
    return true;
  };
  const error = await failure(servers.call('x', 'say', {}, call()));
  assert.equal([error.code, error.retryable, kept.text], ['mcp_unavailable', true, before]);
  assert.not.ok(error.message.includes(saved(before).refresh_token));
  isAway = false;
  assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
});

test('a login of a person is not lost to a refresh that ends after it, and neither is a logout', async () => {
  const { servers, remote, login, kept, store } = await boot();
  await login();
  await servers.tools('x', soon());
  remote.access.clear();
  let person = '';
  remote.does.before = async () => {
    remote.does.before = async () => {};
    await login();
    person = saved(kept.text).access_token;
  };
  assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
  assert.is(saved(kept.text).access_token, person);
  remote.access.clear();
  remote.does.before = () => store.remove();
  assert.is((await failure(servers.call('x', 'say', {}, call()))).code, 'mcp_login_needed');
  assert.is(saved(kept.text).access_token, undefined);
});

test('another address gets no token, and neither does a server with its own header', async () => {
  const { servers, remote, login, write } = await boot();
  await login();
  const other = await loginServers();
  endLater(() => other.close());
  const without = [`${remote.url}?tenant=2`, other.url];
  for (const url of without) {
    write({ x: { url } });
    assert.is((await failure(servers.tools('x', soon()))).code, 'mcp_login_needed');
  }
  const own = { authorization: 'Bearer mine-of-the-file' };
  write({ x: { url: remote.url, headers: own } });
  const error = await failure(servers.tools('x', soon()));
  assert.equal([error.code, error.retryable], ['mcp_unavailable', false]);
  const sent = [...remote.headers, ...other.headers].map(({ authorization }) => authorization);
  assert.equal(new Set(sent.slice(1)), new Set([undefined, own.authorization]));
  write({ x: { url: remote.url } });
  assert.is((await servers.tools('x', soon())).length, 1);
});

test('the headers of the configuration reach the tool server alone', async () => {
  const { remote, login, servers } = await boot({ headers: { 'x-team': 'secret-team' } });
  const { does } = remote;
  const seen: unknown[] = [];
  does.instead = (_, { req }) => {
    seen.push(req.headers['x-team'], req.headers.authorization);
    return false;
  };
  await login();
  await servers.tools('x', soon());
  assert.ok(remote.headers.every((all) => all['x-team'] === 'secret-team'));
  assert.ok(seen.length > 6);
  assert.equal(new Set(seen), new Set([undefined]));
});

test('a wrong state changes nothing, and the right one ends the wait', async () => {
  const { login } = await boot();
  const show = async (page: URL) => {
    const back = new URL(page.searchParams.get('redirect_uri') ?? '');
    const tries = ['', '?code=stolen', '?state=wrong&code=stolen', '?state=&error=access_denied'];
    for (const query of tries) assert.is((await fetch(back.href + query)).status, 400);
    const right = `?state=${page.searchParams.get('state')}&code=stolen`;
    assert.is((await fetch(`${back.origin}/other${right}`)).status, 400);
    assert.is((await fetch(back.href + right, { method: 'POST' })).status, 400);
    for (const odd of ['//', '//x:y/', '*']) await fetch(`${back.origin}${odd}`).catch(() => {});
    const answer = await browse(page);
    assert.equal([answer.status, answer.headers.get('referrer-policy')], [200, 'no-referrer']);
  };
  assert.ok(await login({ show }));
});

test('a code of someone else is refused, and nothing is kept', async () => {
  const { login, remote, kept } = await boot();
  const query = { code: 'stolen', iss: remote.issuer };
  for (const odd of [query, { ...query, iss: 'https://other.test' }, { iss: remote.issuer }, {}]) {
    const show = async (page: URL) => {
      const back = new URL(page.searchParams.get('redirect_uri') ?? '');
      const state = page.searchParams.get('state') ?? '';
      for (const [name, value] of Object.entries({ ...odd, state }))
        back.searchParams.set(name, value);
      await fetch(back);
    };
    assert.is((await failure(login({ show }))).code, 'mcp_login_failed');
  }
  assert.is(kept.text, null);
});

test('a denied consent, and a person who does not come, end the login', async () => {
  const { login, remote, kept } = await boot();
  remote.does.denies = true;
  assert.match((await failure(login())).message, /failed: it answered access_denied\.$/);
  const limits = { ...defaultLimits, mcp_login_ms: 1 };
  const late = await failure(login({ show: async () => {}, limits }));
  assert.match(late.message, /No one signed in/);
  assert.is(kept.text, null);
});

test('a given id is used, and svc does not register', async () => {
  const { login, remote } = await boot();
  await login({ client_id: 'mine' });
  const paths = remote.asked.map(({ path }) => path);
  assert.not.ok(paths.includes('/register'));
  assert.is(tokenRequests(remote)[0]?.fields.client_id, 'mine');
});

const HUGE = { padding: 'x'.repeat(40_000) };
for (const [what, change] of [
  ['a page that is a script', { metadata: { authorization_endpoint: 'javascript:alert(1)' } }],
  ['a page that is a file', { metadata: { authorization_endpoint: 'file:///etc/passwd' } }],
  ['a page without https', { metadata: { authorization_endpoint: 'http://other.test/a' } }],
  ['a password in the page', { metadata: { authorization_endpoint: 'https://a:b@c.test/' } }],
  ['tokens without https', { metadata: { token_endpoint: 'http://other.test/token' } }],
  ['a registration elsewhere', { metadata: { registration_endpoint: 'ftp://other.test/' } }],
  ['another issuer', { metadata: { issuer: 'https://other.test' } }],
  ['no PKCE', { metadata: { code_challenge_methods_supported: ['plain'] } }],
  ['a huge document', { metadata: HUGE }],
  ['a huge document of the server', { resource: HUGE }],
  ['a resource of another host', { resource: { resource: 'https://other.test/mcp' } }],
  [
    'an authorization server without https',
    { resource: { authorization_servers: ['http://other.test'] } },
  ],
] as const)
  test(`${what} ends the login, and opens no page`, async () => {
    const { login, remote, kept } = await boot();
    Object.assign(remote.does, change);
    const shown: URL[] = [];
    const isOpened = what === 'tokens without https';
    const show = async (page: URL) => {
      if (isOpened) await browse(page);
      else shown.push(page);
    };
    const error = await failure(login({ show }));
    assert.is(error.code, 'mcp_login_failed');
    assert.ok(error.message.length < 400, error.message);
    assert.equal([shown, kept.text], [[], null], error.message);
  });

test('an authorization server that redirects, or does not answer, gets no code elsewhere', async () => {
  const { login, remote, kept } = await boot();
  const other = await loginServers();
  endLater(() => other.close());
  remote.does.instead = (path, res) => {
    if (path !== '/token') return false;
    res.writeHead(307, { location: `${other.issuer}/token` }).end();
    return true;
  };
  await failure(login());
  assert.equal(other.asked, []);
  remote.does.instead = (path) => path === '/token';
  const limits = { ...defaultLimits, mcp_oauth_ms: 500 };
  assert.is((await failure(login({ limits }))).code, 'mcp_login_failed');
  assert.is(kept.text, null);
});

test('tokens of a wrong form are refused without a word of them, and a lifetime of none counts as unknown', async () => {
  const { login, remote, kept, servers } = await boot();
  const answer = (text: string) => {
    remote.does.instead = (path, res) => {
      if (path === '/token') res.writeHead(200, { 'content-type': 'application/json' }).end(text);
      return path === '/token';
    };
  };
  answer(JSON.stringify({ access_token: 'broken\r\nx-header: y', token_type: 'Bearer' }));
  const error = await failure(login());
  assert.match(error.message, /failed: a token has a wrong form\.$/);
  assert.is(kept.text, null);
  for (const lifetime of ['0', '-5']) {
    remote.access.add('plain');
    answer(`{"access_token":"plain","token_type":"Bearer","expires_in":${lifetime}}`);
    await login();
    servers.stop('x');
    assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
    assert.is(saved(kept.text).refresh_at, undefined);
  }
});

test('a server of the Internet leads to no inner address', async () => {
  const { remote } = await boot();
  const { fetch, check } = await loginFetch(new URL('https://mcp.test/'), defaultLimits, false);
  for (const url of [
    remote.url,
    'https://10.0.0.1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://0x7f000001/',
    'http://localhost:1/',
  ]) {
    assert.throws(() => check(new URL(url)), /no inner address/);
    assert.is((await failure(fetch(url))).code, 'mcp_login_failed');
  }
  // A name is resolved when it is asked, and one inner address is too much.
  const names = ['8.8.8.8', '127.0.0.1'].map((address) => ({ address, family: 4 }));
  const lookup = ((_: string, __: object, done: (error: null, found: object) => void) =>
    done(null, names)) as never;
  const named = await loginFetch(new URL('https://mcp.test/'), defaultLimits, false, lookup);
  const thrown = await named.fetch('https://inner.test/').catch((error: Error) => error);
  assert.match(String((thrown as Error).cause), /no inner address/);
  assert.equal(remote.headers, []);
  const inside = await loginFetch(new URL(remote.url), defaultLimits);
  inside.check(new URL('https://10.0.0.1/'));
  for (const url of ['http://10.0.0.1/', 'ws://localhost/', 'javascript:1', 'https://a@b.test/'])
    assert.throws(() => inside.check(new URL(url)), /only to https/);
});

test.run();
