import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { daemonMachine } from '../../../machines/daemon/chart.ts';
import { describe } from '../../../machines/describe.ts';
import { EVENTS_TO } from '../../helpers/daemon-paths.ts';
import { ask, type Booted, boot } from './boot.ts';

const test = suite<{ http: Booted }>('health over HTTP');

test.before.each(async (context) => {
  context.http = await boot();
});

test.after.each(({ http }) => http.close());

const LIVE = ['starting', 'ready', 'running', 'stopping'];
const READY = ['ready', 'running.accepting', 'running.saturated'];
const FIELDS = ['status', 'version', 'service_id', 'state', 'state_path', 'since', 'reason'];
const REPORT_FIELDS = [
  'ready_when',
  'transitions',
  'runs',
  'embeddings',
  'queue',
  'providers',
  'engine',
  'engines',
  'log',
  'memory',
  'last_boot',
  'checks',
];

/** Every state that has no states inside, read from the machine. */
const leaves = describe(daemonMachine)
  .states.filter(({ type }) => type !== 'compound' && type !== 'group')
  .map(({ path }) => path);

test('the tests cover all states of the machine', () => {
  assert.equal(Object.keys(EVENTS_TO).sort(), leaves.sort());
});

test('in every state each route has its status, with a body that agrees', async ({ http }) => {
  for (const path of Object.keys(EVENTS_TO)) {
    http.runtime.bring(path);
    const state = path.split('.')[0] ?? '';
    const expected = {
      '/livez': LIVE.includes(state),
      '/readyz': READY.includes(path),
      '/v1/runtime/health': READY.includes(path),
    };
    for (const [route, passes] of Object.entries(expected)) {
      const { status, headers, json } = await ask(http.url + route);
      const where = `${route} in ${path}`;
      assert.is(status, passes ? 200 : 503, where);
      assert.is(headers['retry-after'], passes ? undefined : '1', where);
      assert.is(json.status, passes ? 'pass' : 'fail', where);
      assert.is(headers['content-type'], 'application/health+json', where);
      assert.is(headers['cache-control'], 'no-store', where);
      assert.is(json.state, state, where);
      assert.is(json.state_path, path, where);
      assert.is(json.reason === null, READY.includes(path), where);
      assert.is(typeof json.output, passes ? 'undefined' : 'string', where);
      for (const field of route === '/v1/runtime/health' ? [...FIELDS, ...REPORT_FIELDS] : FIELDS)
        assert.ok(field in json, `${field} of ${where}`);
      for (const field of Object.keys(json))
        assert.ok(
          [...FIELDS, ...(route === '/v1/runtime/health' ? REPORT_FIELDS : []), 'output'].includes(
            field,
          ),
          `${field} of ${where}`,
        );
    }
  }
});

test('HEAD answers as GET does, without the body', async ({ http }) => {
  for (const path of ['ready', 'stopping.closing', 'stopped']) {
    http.runtime.bring(path);
    for (const route of ['/livez', '/readyz', '/v1/runtime/health']) {
      const get = await ask(http.url + route);
      const head = await ask(http.url + route, { method: 'HEAD' });
      assert.is(head.status, get.status);
      assert.is(head.text, '');
      for (const name of ['content-type', 'cache-control'])
        assert.is(head.headers[name], get.headers[name]);
      assert.ok(Number(head.headers['content-length']) > 0);
    }
  }
});

test('a health answer uses only the state in memory', async ({ http }) => {
  for (const route of ['/livez', '/readyz', '/v1/runtime/health']) await ask(http.url + route);
  assert.equal([...new Set(http.runtime.calls)].sort(), ['health', 'probe', 'report']);
});

test('health needs no token, also while no token exists', async () => {
  const http = await boot({ token: () => null });
  for (const route of ['/livez', '/readyz', '/v1/runtime/health'])
    assert.is((await ask(http.url + route)).status, 200);
  assert.is((await ask(`${http.url}/v1/runs`)).status, 401);
  await http.close();
});

test('a daemon whose providers are all down is ready, and warns', async ({ http }) => {
  const since = new Date(0).toISOString();
  http.runtime.providerRecords = [
    {
      id: 'local',
      kind: 'local',
      adapter: 'llama.cpp',
      state: 'unavailable',
      reason: 'gone',
      since,
      base_url: null,
      retry_at: null,
      transitions: [],
      credential: 'none',
      models: 0,
      faulty_models: [],
      default: true,
    },
  ];
  for (const route of ['/readyz', '/v1/runtime/health']) {
    const { status, json } = await ask(http.url + route);
    assert.is(status, 200);
    assert.is(json.status, 'warn');
    assert.is(typeof json.output, 'string');
  }
  const livez = await ask(`${http.url}/livez`);
  assert.is(livez.json.status, 'pass');
});

test('the report says what would make the daemon ready', async ({ http }) => {
  http.runtime.bring('starting.opening');
  assert.is((await ask(`${http.url}/v1/runtime/health`)).json.ready_when, 'the event log is open');
  http.runtime.bring('ready');
  assert.is((await ask(`${http.url}/v1/runtime/health`)).json.ready_when, null);
});

test('a method that a health route does not take is 405 and names those it does', async ({
  http,
}) => {
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND']) {
    const { status, headers, json } = await ask(`${http.url}/livez`, { method });
    assert.is(status, 405, method);
    assert.is(headers.allow, 'GET, HEAD, OPTIONS');
    assert.is(json.error.code, 'method_not_allowed');
  }
});

test('a daemon that stops keeps no connection open, and one that waits for its disk keeps all', async ({
  http,
}) => {
  const keep = { connection: 'keep-alive' };
  assert.is((await ask(`${http.url}/livez`, { headers: keep })).headers.connection, 'keep-alive');
  for (const path of ['stopping.draining', 'stopping.closing', 'stopped']) {
    http.runtime.bring(path);
    assert.is((await ask(`${http.url}/livez`, { headers: keep })).headers.connection, 'close');
  }
  for (const path of ['starting.probing', 'running.disk_full', 'running.disk_stalled']) {
    http.runtime.bring(path);
    assert.is(
      (await ask(`${http.url}/livez`, { headers: keep })).headers.connection,
      'keep-alive',
      path,
    );
  }
});

test('a fault in the runtime is a 500 with the envelope, and its text stays in the log', async ({
  http,
}) => {
  http.runtime.fail('report', new Error('/secret/path exploded'));
  const { status, json, text } = await ask(`${http.url}/v1/runtime/health`);
  assert.is(status, 500);
  assert.is(json.error.code, 'internal');
  assert.not.match(text, 'secret');
  assert.match(String(http.logged.at(-1)?.fields.err), 'exploded');
});

test.run();
