import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { Login } from '../../src/tools/login.ts';
import { revoke } from '../../src/tools/revocation.ts';
import { failure } from '../helpers/failure.ts';
import { loginServers } from '../helpers/login-servers.ts';
import {
  boot,
  call,
  endLater,
  endLogins,
  saved,
  soon,
  tokenRequests,
} from '../helpers/login-stage.ts';

/** What a tool server asks a login for, the client that logs in, and the end of the tokens. */

test.after.each(endLogins);

for (const method of ['initialize', 'tools/list', 'tools/call'])
  test(`a login that is asked for at ${method} leads to one`, async () => {
    const all = ['initialize', 'notifications/initialized', 'tools/list', 'tools/call'];
    const { servers, remote, login, kept } = await boot();
    remote.does.free = all.slice(0, all.indexOf(method));
    remote.does.scope = 'speak';
    const use = () => servers.call('x', 'say', {}, call());
    const error = await failure(use());
    assert.equal(
      [error.code, error.message],
      ['mcp_login_needed', 'The tool server x needs a login: svc mcp login x'],
    );
    assert.is(saved(kept.text).asked.scope, 'speak');
    assert.equal(await login(), []);
    servers.stop('x');
    assert.is((await use()).text, 'said');
  });

test('a login that only the server itself offers works without a refusal; without an authorization server there is no login', async () => {
  const { remote, login, kept } = await boot();
  remote.does.free = ['initialize', 'notifications/initialized', 'tools/list'];
  assert.equal(await login(), []);
  assert.ok(saved(kept.text).access_token);
  kept.text = null;
  remote.does.resource = { authorization_servers: undefined };
  assert.is(await login(), null);
  assert.is(kept.text, null);
});

test('a server that cannot be reached says so, and not that it asks for no login', async () => {
  const { remote, login } = await boot();
  remote.close();
  const error = await failure(login());
  assert.is(error.code, 'mcp_unavailable');
  assert.match(error.message, /cannot be reached/);
});

test('a missing scope is named, and the next login asks for it too', async () => {
  const { servers, remote, login, kept } = await boot();
  remote.does.scope = 'read';
  remote.does.needs = { 'tools/call': 'write' };
  const use = () => servers.call('x', 'say', {}, call());
  await login();
  const error = await failure(use());
  assert.equal(
    [error.code, error.retryable, error.message],
    [
      'mcp_login_needed',
      false,
      'The tool server x needs a login with the scope write: svc mcp login x',
    ],
  );
  assert.is((await servers.tools('x', soon())).length, 1, 'what needs no scope still works');
  assert.is(saved(kept.text).asked.scope, 'read write');
  assert.equal(await login(), []);
  servers.stop('x');
  assert.is((await use()).text, 'said');
  const pages = remote.asked.filter(({ path }) => path === '/authorize');
  assert.equal(
    pages.map(({ fields }) => fields.scope),
    ['read', 'read write'],
  );
});

test('a refusal that names no scope says how to name one', async () => {
  const { remote, store } = await boot();
  const options = { name: 'x', server: remote.url, store, limits: defaultLimits, now: Date.now };
  for (const odd of ['', 'a"b', 'x'.repeat(5000)]) {
    const { code, message } = new Login(options).refusal(odd, null);
    assert.is(code, 'mcp_login_needed');
    assert.match(
      message,
      /more scopes, and does not name them: svc mcp login x --scope "<scopes>"$/,
    );
  }
});

test('a scope that a login asked for in vain is no reason for another login', async () => {
  const { servers, remote, login } = await boot();
  remote.does.needs = { 'tools/call': 'admin' };
  remote.does.grants = () => 'read';
  assert.equal(await login({ scope: 'read admin' }), ['admin']);
  const error = await failure(servers.call('x', 'say', {}, call()));
  assert.equal([error.code, error.retryable], ['mcp_unavailable', false]);
  assert.match(error.message, /for want of the scope admin, which the login has asked for already/);
});

test('the scopes that a person chose count for later logins too', async () => {
  const { remote, login } = await boot();
  remote.does.scope = 'read write';
  await login({ scope: 'read' });
  await login();
  const pages = remote.asked.filter(({ path }) => path === '/authorize');
  assert.equal(
    pages.map(({ fields }) => fields.scope),
    ['read', 'read'],
  );
});

for (const method of ['client_secret_basic', 'client_secret_post'])
  test(`a secret is sent by ${method} alone, for the tokens, their refresh and their end`, async () => {
    const { servers, remote, login, store, kept, lines } = await boot();
    const methods = { token_endpoint_auth_methods_supported: [method] };
    remote.does.metadata = { ...methods, revocation_endpoint: `${remote.issuer}/revoke` };
    remote.does.secret = 'open-sesame';
    const client = { client_id: 'mine', client_secret: 'open-sesame' };
    const wrong = await failure(login({ ...client, client_secret: 'guess' }));
    assert.match(wrong.message, /failed: it answered invalid_client\.$/);
    await login(client);
    await servers.tools('x', soon());
    remote.access.clear();
    await servers.call('x', 'say', {}, call());
    const { access_token, refresh_token } = saved(kept.text);
    remote.asked.length = 0;
    assert.is(await revoke(store, defaultLimits), 'revoked');
    assert.equal(
      remote.asked.map(({ path, fields }) => [path, fields.token_type_hint, fields.token]),
      [
        ['/revoke', 'refresh_token', refresh_token],
        ['/revoke', 'access_token', access_token],
      ],
    );
    const basic = `Basic ${Buffer.from('mine:open-sesame').toString('base64')}`;
    for (const { authorization, fields } of remote.asked)
      assert.equal(
        [authorization, fields.client_id, fields.client_secret],
        method === 'client_secret_basic'
          ? [basic, undefined, undefined]
          : [undefined, 'mine', 'open-sesame'],
      );
    assert.not.ok(
      [...lines, wrong.message, JSON.stringify(wrong.body())].join().includes('sesame'),
    );
    assert.ok(remote.headers.every(({ authorization = '' }) => !authorization.startsWith('Basic')));
  });

test('a secret goes to no other authorization server than at the last login', async () => {
  const { remote, login } = await boot();
  const other = await loginServers();
  endLater(() => other.close());
  const client = { client_id: 'mine', client_secret: 'open-sesame' };
  await login(client);
  remote.does.resource = { authorization_servers: [other.issuer] };
  const error = await failure(login(client));
  assert.is(error.code, 'mcp_login_failed');
  assert.match(error.message, /does not send the secret/);
  assert.match(error.hint, /svc mcp logout x$/);
  assert.not.ok(other.asked.some(({ path }) => path === '/authorize' || path === '/token'));
});

test('an id that is an address is a document, where the authorization server reads such', async () => {
  const { remote, login } = await boot();
  const client_id = 'https://me.test/svc.json';
  const idOf = () => tokenRequests(remote).at(-1)?.fields.client_id;
  await login({ client_id });
  assert.is(idOf(), 'client-1', 'it registers itself');
  remote.does.metadata = { client_id_metadata_document_supported: true };
  await login({ client_id });
  assert.is(idOf(), client_id);
});

test('tokens whose end is not offered, or fails, are said to work on', async () => {
  const { remote, login, store } = await boot();
  assert.is(await revoke(store, defaultLimits), null);
  await login();
  assert.is(await revoke(store, defaultLimits), 'not_offered');
  remote.does.metadata = { revocation_endpoint: `${remote.issuer}/revoke` };
  await login();
  remote.does.instead = (_, res) => {
    res.writeHead(503).end(`tokens ${remote.issued.join(' ')}`);
    return true;
  };
  assert.equal(await revoke(store, defaultLimits), { failed: 'it answered HTTP 503' });
  remote.close();
  assert.equal(await revoke(store, defaultLimits), {
    failed: 'it cannot be reached (ECONNREFUSED)',
  });
  remote.does.metadata = {};
});

test('a server that names no authorization server may name another path of the same host', async () => {
  const { remote, login, servers } = await boot();
  remote.does.own = { issuer: `${new URL(remote.url).origin}/tenant` };
  assert.equal(await login(), []);
  assert.is((await servers.call('x', 'say', {}, call())).text, 'said');
  remote.does.own = { issuer: `${remote.issuer}/tenant` };
  assert.match((await failure(login())).message, /Issuer mismatch/);
  remote.does.own = null;
  remote.does.metadata = { issuer: `${remote.issuer}/tenant` };
  assert.match((await failure(login())).message, /Issuer mismatch/);
});

test.run();
