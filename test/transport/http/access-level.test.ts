import { networkInterfaces } from 'node:os';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../../src/daemon/routes.ts';
import { SvcError } from '../../../src/errors.ts';
import { ask, BEARER, type Booted, boot, TOKEN } from './boot.ts';

const test = suite<{ http: Booted }>('access over HTTP');

test.before.each(async (context) => {
  context.http = await boot({
    settings: { allowed_origins: ['https://app.example', 'http://localhost:5173'] },
  });
});

test.after.each(({ http }) => http.close());

function fill(path: string): string {
  return path.replace(':id', 'run_1');
}

test('every route that is not public needs the token, and says so', async ({ http }) => {
  let asked = 0;
  for (const route of routes) {
    if (route.access !== 'token') continue;
    const { status, headers, json } = await ask(http.url + fill(route.path), {
      method: route.method,
      headers: { 'content-type': 'application/json' },
    });
    assert.is(status, 401, route.path);
    const refused = new SvcError('unauthorised');
    assert.equal(json, route.errors?.(refused) ?? { error: refused.body() });
    assert.is(headers['www-authenticate'], 'Bearer realm="svc"');
    asked += 1;
  }
  assert.ok(asked >= 8);
  assert.equal(
    http.runtime.calls.filter((method) => !['probe', 'health'].includes(method)),
    [],
  );
});

test('only the exact token is accepted', async ({ http }) => {
  const wrong = [
    TOKEN.slice(0, -1),
    `${TOKEN}x`,
    TOKEN.toUpperCase(),
    'x',
    '',
    'null',
    'undefined',
    `${TOKEN} ${TOKEN}`,
    'x'.repeat(8000),
  ];
  for (const token of wrong)
    assert.is(
      (await ask(`${http.url}/v1/runs`, { headers: { authorization: `Bearer ${token}` } })).status,
      401,
      token.slice(0, 40),
    );
  for (const header of [TOKEN, `Basic ${TOKEN}`, `Bearer${TOKEN}`, `Token ${TOKEN}`])
    assert.is(
      (await ask(`${http.url}/v1/runs`, { headers: { authorization: header } })).status,
      401,
    );
  assert.is((await ask(`${http.url}/v1/runs?token=${TOKEN}`)).status, 401);
  for (const header of [`Bearer ${TOKEN}`, `bearer ${TOKEN}`, `Bearer   ${TOKEN}`])
    assert.is(
      (await ask(`${http.url}/v1/runs`, { headers: { authorization: header } })).status,
      200,
    );
});

test('the token is also accepted as x-api-key, by every route, under the same rules', async ({
  http,
}) => {
  const statusOf = async (headers: Record<string, string>, path = '/v1/runs') =>
    (await ask(http.url + path, { headers })).status;
  assert.is(await statusOf({ 'x-api-key': TOKEN }), 200);
  for (const wrong of [`${TOKEN}x`, TOKEN.slice(1), '', `Bearer ${TOKEN}`, `${TOKEN}, ${TOKEN}`])
    assert.is(await statusOf({ 'x-api-key': wrong }), 401, wrong);
  assert.is(await statusOf({ 'x-api-key': 'wrong' }, '/livez'), 200);
  assert.is(await statusOf({ 'x-api-key': 'wrong' }, '/v1/runtime/health'), 401);
  for (const route of routes.filter(({ access }) => access === 'token')) {
    const { status } = await ask(http.url + fill(route.path), {
      method: route.method,
      headers: { 'content-type': 'application/json', 'x-api-key': 'wrong' },
    });
    assert.is(status, 401, route.path);
  }
});

test('two tokens in one request must both be right', async ({ http }) => {
  const asked = (headers: Record<string, string>) => ask(`${http.url}/v1/runs`, { headers });
  assert.is((await asked({ ...BEARER, 'x-api-key': TOKEN })).status, 200);
  for (const headers of [
    { ...BEARER, 'x-api-key': 'another' },
    { ...BEARER, 'x-api-key': '' },
    { authorization: 'Bearer another', 'x-api-key': TOKEN },
    { authorization: 'Basic another', 'x-api-key': TOKEN },
    { authorization: 'Bearer one', 'x-api-key': 'another' },
  ]) {
    const { status, json } = await asked(headers);
    assert.is(status, 401);
    assert.match(json.error.message, 'different tokens');
  }
});

test('two Authorization headers are one token, or none', async ({ http }) => {
  const other = 'Bearer another';
  for (const [sent, status] of [
    [[BEARER.authorization, BEARER.authorization], 200],
    [[BEARER.authorization, other], 401],
    [[other, BEARER.authorization], 401],
  ] as const) {
    const headers = { authorization: sent } as unknown as Record<string, string>;
    assert.is((await ask(`${http.url}/v1/runs`, { headers })).status, status, sent.join());
  }
});

test('a token in the path is a token like any other, and nothing shows it', async ({ http }) => {
  const asked = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    ask(`${http.url}/t/${path}`, { method, headers });
  assert.is((await asked(`${TOKEN}/v1/runs?limit=1`)).status, 200);
  assert.is((await asked(`${TOKEN}/api/version`)).status, 200);
  for (const path of [`${TOKEN}/`, TOKEN, `${TOKEN}?a=1`])
    assert.is((await asked(path, {}, 'HEAD')).status, 200, path);
  assert.is((await asked(`${TOKEN}/v1/runs`, BEARER)).status, 200);
  // Programs join addresses.
  assert.is((await asked(`${TOKEN}//v1/runs`)).status, 200);
  assert.is((await ask(`${http.url}//t/${TOKEN}/v1/runs`)).status, 200);
  const other = await asked(`${TOKEN}/v1/runs`, { authorization: 'Bearer another' });
  assert.match(other.json.error.message, 'different tokens');
  for (const wrong of ['wrong', '', `${TOKEN}x`, TOKEN.toUpperCase()])
    assert.is((await asked(`${wrong}/v1/runs`)).status, 401, wrong);
  const answers = [
    await asked(`${TOKEN}/v1/nothing`),
    await asked(`${TOKEN}/v1/runs`, {}, 'DELETE'),
    await asked(`${TOKEN}/v1/runs?nothing=1`),
    await asked(`${TOKEN}/%zz`),
    await asked(`${TOKEN}/v1/runs`, { origin: 'https://evil.example' }),
  ];
  assert.equal(
    answers.map(({ status }) => status),
    [404, 405, 400, 400, 403],
  );
  const figures = await ask(`${http.url}/metrics`, { headers: BEARER });
  assert.not.match(JSON.stringify([answers, figures, http.logged]), TOKEN);
});

test('without a token no client is trusted', async () => {
  const http = await boot({ token: () => null });
  for (const authorization of ['Bearer null', 'Bearer ', BEARER.authorization])
    assert.is((await ask(`${http.url}/v1/runs`, { headers: { authorization } })).status, 401);
  for (const key of ['null', ''])
    assert.is((await ask(`${http.url}/v1/runs`, { headers: { 'x-api-key': key } })).status, 401);
  await http.close();
});

test('without authentication no token is needed, but Host and Origin are checked', async () => {
  const http = await boot({ settings: { auth: false } });
  assert.is((await ask(`${http.url}/v1/runs`)).status, 200);
  assert.is((await ask(`${http.url}/v1/runs`, { headers: { host: 'evil.example' } })).status, 403);
  assert.is(
    (await ask(`${http.url}/v1/runs`, { headers: { origin: 'http://evil.example' } })).status,
    403,
  );
  await http.close();
});

test('a name of allowed_hosts is a name of this machine: with its page, at any port unless it has one', async () => {
  const allowed_hosts = ['nas', 'svc.example:8443', '*.lan', '[fd00::1]'];
  for (const auth of [true, false]) {
    const http = await boot({ settings: { auth, allowed_hosts } });
    const statusOf = async (headers: Record<string, string>, path = '/') =>
      (await ask(http.url + path, { headers })).status;
    for (const host of ['nas', 'NAS:1', 'svc.example:8443', 'a.lan', 'a.b.lan:80', '[fd00::1]:5']) {
      assert.is(await statusOf({ host }), 200, host);
      for (const scheme of ['http', 'https']) {
        const origin = `${scheme}://${host}`;
        assert.is(await statusOf({ host, origin }), 200, origin);
      }
      assert.is(await statusOf({ host, origin: 'http://nas:2' }), 403, host);
      assert.is(await statusOf({ host, origin: 'http://evil.example' }), 403, host);
      assert.is(await statusOf({ host }, '/v1/runs'), auth ? 401 : 200, host);
    }
    for (const host of [
      'nas.evil',
      'svc.example',
      'svc.example:8444',
      'lan',
      'evillan',
      '[fd00::2]',
    ])
      assert.is(await statusOf({ host }), 403, host);
    await http.close();
  }
});

test('without authentication a page of another origin is refused, even without an Origin; our page and links to it are not', async () => {
  const origin = 'https://app.example';
  const http = await boot({ settings: { auth: false, allowed_origins: [origin] } });
  const statusOf = async (path: string, headers: Record<string, string>) =>
    (await ask(http.url + path, { headers })).status;
  for (const site of ['cross-site', 'same-site']) {
    assert.is(await statusOf('/v1/runs', { 'sec-fetch-site': site }), 403, site);
    assert.is(await statusOf('/v1/runs', { 'sec-fetch-site': site, origin }), 200, site);
    assert.is(
      await statusOf('/', { 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate' }),
      200,
      site,
    );
  }
  for (const site of ['same-origin', 'none'])
    assert.is(await statusOf('/v1/runs', { 'sec-fetch-site': site }), 200, site);
  await http.close();
});

test('no page of another origin can read an answer, or reach a page that it opened', async ({
  http,
}) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  for (const path of ['/', '/livez', '/openapi.json', '/v1/runs', '/v1/runs/run_1', '/nowhere']) {
    const { headers } = await ask(http.url + path, { headers: BEARER });
    assert.is(headers['cross-origin-resource-policy'], 'same-origin', path);
    assert.is(headers['cross-origin-opener-policy'], 'same-origin', path);
  }
});

test('a Host that is not ours is served for a valid token without Origin, and for a probe; else refused', async ({
  http,
}) => {
  const { port } = http;
  const wrong = [
    'evil.example',
    `evil.example:${port}`,
    `127.0.0.1:${port + 1}`,
    '127.0.0.1',
    'localhost',
    `localhost.evil.example:${port}`,
    `127.0.0.1.evil:${port}`,
    `user@127.0.0.1:${port}`,
    `127.0.0.1:${port}/x`,
    `[::2]:${port}`,
    `0.0.0.0:${port}`,
    `localhost:${port}, evil`,
    ' ',
    `127.0.0.1:0${port}0`,
    'host.docker.internal:4780',
  ];
  for (const host of wrong) {
    const asked = async (path: string, headers: Record<string, string>) => {
      const { status, json } = await ask(http.url + path, { headers: { host, ...headers } });
      return [status, json.error?.code ?? null];
    };
    const refused = [403, 'forbidden_origin'];
    for (const path of ['/livez', '/readyz']) {
      assert.equal(await asked(path, {}), [200, null], `${host} ${path}`);
      assert.equal(await asked(path, { origin: 'http://evil.example' }), refused);
    }
    for (const path of ['/', '/openapi.json', '/v1/runtime/health', '/v1/runs', '/nowhere'])
      for (const headers of [
        {},
        { authorization: 'Bearer wrong' },
        { ...BEARER, origin: 'http://evil.example' },
        { ...BEARER, origin: `http://${host}` },
        { ...BEARER, origin: 'null' },
        { ...BEARER, origin: '' },
      ])
        assert.equal(await asked(path, headers), refused, `${host} ${path}`);
    assert.equal(await asked('/v1/runs', BEARER), [200, null], host);
    assert.equal(await asked('/v1/runs', { 'x-api-key': TOKEN }), [200, null], host);
    assert.equal(await asked(`/t/${TOKEN}/v1/runs`, {}), [200, null], host);
    assert.equal(await asked('/nowhere', BEARER), [404, 'route_unknown'], host);
  }
  const { json } = await ask(`${http.url}/v1/runs`, { headers: { host: 'nas:4780' } });
  assert.is(
    json.error.hint,
    'A program sends its token. Use 127.0.0.1, or allow the name: svc config set allowed_hosts \'["nas"]\'',
  );
  for (const host of [
    `127.0.0.1:${port}`,
    `localhost:${port}`,
    `LocalHost:${port}`,
    `[::1]:${port}`,
  ])
    assert.is((await ask(`${http.url}/livez`, { headers: { host } })).status, 200, host);
});

test('an Origin that is not allowed is refused on every route, without headers that let a page read it', async ({
  http,
}) => {
  for (const origin of [
    'http://evil.example',
    'null',
    '',
    `https://127.0.0.1:${http.port}`,
    `http://127.0.0.1:${http.port + 1}`,
    'https://app.example.evil',
    'http://app.example',
    'file://',
  ]) {
    for (const method of ['GET', 'OPTIONS']) {
      const { status, headers } = await ask(`${http.url}/livez`, { method, headers: { origin } });
      assert.is(status, 403, origin);
      assert.is(headers['access-control-allow-origin'], undefined);
    }
  }
  for (const origin of [`http://127.0.0.1:${http.port}`, `http://localhost:${http.port}`]) {
    const { status, headers } = await ask(`${http.url}/livez`, { headers: { origin } });
    assert.is(status, 200);
    assert.is(headers['access-control-allow-origin'], undefined);
  }
});

test('an allowed page may read answers and errors, without credentials, and its preflight is answered', async ({
  http,
}) => {
  for (const origin of ['https://app.example', 'http://localhost:5173']) {
    const get = await ask(`${http.url}/v1/runs`, { headers: { ...BEARER, origin } });
    assert.is(get.status, 200);
    assert.is(get.headers['access-control-allow-origin'], origin);
    assert.is(get.headers['access-control-allow-credentials'], undefined);
    assert.is(get.headers.vary, 'Origin');
    const refused = await ask(`${http.url}/v1/runs`, { headers: { origin } });
    assert.is(refused.status, 401);
    assert.is(refused.headers['access-control-allow-origin'], origin);
    const preflight = await ask(`${http.url}/v1/runs`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
    assert.is(preflight.status, 204);
    assert.is(preflight.headers['access-control-allow-methods'], 'GET, HEAD, POST, OPTIONS');
    assert.is(preflight.headers['access-control-allow-headers'], 'Authorization, *');
    assert.is(preflight.headers['access-control-allow-private-network'], undefined);
  }
});

test('a page of another program of this machine is served with the token alone', async () => {
  const http = await boot();
  const origin = 'http://localhost:3000';
  const asked = (headers: Record<string, string>, path = '/v1/runs', method = 'GET') =>
    ask(http.url + path, { method, headers: { origin, ...headers } });
  const right = await asked(BEARER);
  assert.equal([right.status, right.headers['access-control-allow-origin']], [200, origin]);
  assert.is(right.headers['access-control-expose-headers'], '*');
  assert.is(right.headers['access-control-allow-credentials'], undefined);
  const wrong = await asked({ authorization: 'Bearer wrong' }, '/livez');
  assert.equal([wrong.status, wrong.headers['access-control-allow-origin']], [401, origin]);
  for (const path of ['/livez', '/v1/runtime/health', '/v1/runs', '/nowhere']) {
    const none = await asked({}, path);
    assert.equal([none.status, none.json.error.code], [403, 'forbidden_origin'], path);
    assert.is(none.headers['access-control-allow-origin'], undefined, path);
  }
  const question = {
    'access-control-request-method': 'POST',
    'access-control-request-private-network': 'true',
  };
  const preflight = await asked(question, '/v1/chat/completions', 'OPTIONS');
  assert.equal([preflight.status, preflight.headers['access-control-allow-origin']], [204, origin]);
  assert.is(preflight.headers['access-control-allow-private-network'], 'true');
  await http.close();
});

test('OPTIONS names the methods of a path, and none for an unknown path', async ({ http }) => {
  const { status, headers } = await ask(`${http.url}/v1/runs/run_1/cancel`, { method: 'OPTIONS' });
  assert.is(status, 204);
  assert.is(headers.allow, 'POST, OPTIONS');
  assert.is((await ask(`${http.url}/v1/none`, { method: 'OPTIONS' })).status, 404);
});

test('the Allow of every path has the methods of its rows, though another row fits it', async ({
  http,
}) => {
  // The names of parameters differ between rows of one path.
  const shapeOf = (path: string) => path.replace(/:\w+/g, 'sample').replace('*', 'a/b');
  const paths = Map.groupBy(routes, ({ path }) => shapeOf(path));
  assert.ok(paths.has('/v1/models/load') && paths.has('/v1/models/sample'));
  for (const [path, of] of paths) {
    const taken = of.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    const { status, headers } = await ask(http.url + path, { method: 'OPTIONS' });
    assert.is(status, 204, path);
    assert.equal(headers.allow?.split(', ').sort(), [...taken, 'OPTIONS'].sort(), path);
    const refused = ['GET', 'POST', 'DELETE', 'PUT'].find((method) => !taken.includes(method));
    const wrong = await ask(http.url + path, { method: refused ?? '', headers: BEARER });
    assert.equal([wrong.status, wrong.headers.allow], [405, headers.allow], path);
  }
  const { status, json } = await ask(`${http.url}/v1/models/load`, { headers: BEARER });
  assert.equal([status, json.error.code], [405, 'method_not_allowed']);
  const one = await ask(`${http.url}/v1/models/loads`, { headers: BEARER });
  assert.equal([one.status, one.json.error.code], [404, 'model_unknown']);
});

test('an unknown route is 404 in the envelope, a wrong method 405', async ({ http }) => {
  for (const path of [
    '/index.html',
    '/v1',
    '/v1/run',
    '/v1/runs/a/b',
    '//livez',
    '/livez/x',
    '/__proto__',
  ]) {
    const { status, json } = await ask(http.url + path, { headers: BEARER });
    assert.is(status, 404, path);
    assert.is(json.error.code, 'route_unknown');
    assert.equal(Object.keys(json.error).sort(), [
      'code',
      'docs',
      'hint',
      'message',
      'param',
      'retryable',
      'type',
    ]);
  }
  assert.is((await ask(`${http.url}/v1/runtime/events`)).headers.allow, 'POST, OPTIONS');
  assert.is(
    (await ask(`${http.url}/v1/runs`, { method: 'DELETE' })).headers.allow,
    'GET, HEAD, POST, OPTIONS',
  );
});

test('a plain request to the WebSocket gets 426', async ({ http }) => {
  const { status, headers, json } = await ask(`${http.url}/v1/logs`, { headers: BEARER });
  assert.is(status, 426);
  assert.is(headers.upgrade, 'websocket');
  assert.is(json.error.code, 'upgrade_required');
});

test('a client that offers another protocol is served over this one', async ({ http }) => {
  const { status } = await ask(`${http.url}/livez`, {
    headers: {
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAAQAAP__',
    },
  });
  assert.is(status, 200);
});

test('from another machine, health is public, and a wrong token is refused', async () => {
  const other = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal)?.address;
  if (other === undefined) return;
  const http = await boot({ bind: '0.0.0.0', settings: { http: '0.0.0.0:0' } });
  const url = `http://${other}:${http.port}`;
  assert.is((await ask(`${url}/livez`)).status, 200);
  assert.is((await ask(`${url}/readyz`)).status, 200);
  assert.is((await ask(`${url}/v1/runtime/health`)).status, 200);
  assert.is(
    (await ask(`${url}/v1/runtime/health`, { headers: { authorization: 'Bearer wrong' } })).status,
    401,
  );
  assert.is((await ask(`${url}/v1/runtime/health`, { headers: BEARER })).status, 200);
  assert.is((await ask(`http://127.0.0.1:${http.port}/v1/runtime/health`)).status, 200);
  const host = `evil.example:${http.port}`;
  assert.is((await ask(`${url}/livez`, { headers: { host } })).status, 200);
  assert.is((await ask(`${url}/v1/runtime/health`, { headers: { host } })).status, 403);
  await http.close();
});

test('a port in use and a foreign address are errors of svc', async ({ http }) => {
  const refusal = (bind: string, port: number) =>
    boot({ bind, port }).then(
      (other) => other.close(),
      (error) => error.code,
    );
  assert.is(await refusal('127.0.0.1', http.port), 'port_in_use');
  assert.is(await refusal('192.0.2.1', 0), 'address_refused');
  assert.is(await refusal('no such host', 0), 'address_refused');
});

test('it listens on IPv6 too', async () => {
  const http = await boot({ bind: '::1', settings: { http: '[::1]:0' } });
  assert.match(http.url, /^http:\/\/\[::1\]:\d+$/);
  assert.is((await ask(`${http.url}/livez`)).status, 200);
  await http.close();
});

test.run();
