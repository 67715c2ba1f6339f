import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, type Booted, boot } from './boot.ts';

const test = suite<{ http: Booted; api: (path: string, more?: object) => ReturnType<typeof ask> }>(
  'runs over HTTP',
);

test.before.each(async (context) => {
  context.http = await boot({ limits: { page_runs: 10 } });
  context.api = (path, more = {}) => ask(context.http.url + path, { headers: BEARER, ...more });
});

test.after.each(({ http }) => http.close());

test('a run is accepted with 202, its record and its location', async ({ http, api }) => {
  const body = {
    prompt: 'hello',
    provider: 'local',
    temperature: 0.5,
    seed: 7,
    max_tokens: 10,
    system: 's',
    model: 'm',
    cloud: false,
    timeout_ms: 1000,
  };
  const { status, headers, json } = await api('/v1/runs', { method: 'POST', body });
  assert.is(status, 202);
  assert.is(json.id, 'run_1');
  assert.is(json.state, 'queued');
  assert.is(headers['x-svc-run-id'], 'run_1');
  assert.is(headers.location, '/v1/runs/run_1');
  assert.equal(http.runtime.inputs, [body]);
  assert.equal((await api('/v1/runs/run_1')).json, json);
});

test('the idempotency key is a header or a field, and the two may not differ', async ({
  http,
  api,
}) => {
  const key = (value: string) => ({ ...BEARER, 'idempotency-key': value });
  await api('/v1/runs', { method: 'POST', headers: key('k1'), body: { prompt: 'a' } });
  await api('/v1/runs', {
    method: 'POST',
    headers: key('k2'),
    body: { prompt: 'a', idempotency_key: 'k2' },
  });
  await api('/v1/runs', { method: 'POST', body: { prompt: 'a', idempotency_key: 'k3' } });
  assert.equal(
    http.runtime.inputs.map((input) => input.idempotency_key),
    ['k1', 'k2', 'k3'],
  );
  for (const [header, field] of [
    ['a', 'b'],
    ['x'.repeat(300), undefined],
  ] as const) {
    const { status, json } = await api('/v1/runs', {
      method: 'POST',
      headers: key(header),
      body: { prompt: 'a', ...(field ? { idempotency_key: field } : {}) },
    });
    assert.is(status, 400);
    assert.is(json.error.param, 'idempotency_key');
  }
});

test('a full daemon answers 429 and says when to retry', async ({ http, api }) => {
  http.runtime.fail(
    'runs.start',
    new SvcError('busy', 'Full.', { details: { retry_after_ms: 2500 } }),
  );
  const busy = await api('/v1/runs', { method: 'POST', body: { prompt: 'a' } });
  assert.is(busy.status, 429);
  assert.is(busy.headers['retry-after'], '3');
  assert.is(busy.json.error.retryable, true);
  http.runtime.fail('runs.start', new SvcError('busy'));
  assert.is(
    (await api('/v1/runs', { method: 'POST', body: { prompt: 'a' } })).headers['retry-after'],
    '1',
  );
  http.runtime.fail('runs.start', new SvcError('not_ready'));
  const early = await api('/v1/runs', { method: 'POST', body: { prompt: 'a' } });
  assert.is(early.status, 503);
  assert.is(early.headers['retry-after'], '1');
});

test('an unknown error stays in the log', async ({ http, api }) => {
  http.runtime.fail('runs.start', new TypeError('secret stack'));
  const { status, text, json } = await api('/v1/runs', {
    method: 'POST',
    body: { prompt: 'private prompt' },
  });
  assert.is(status, 500);
  assert.is(json.error.code, 'internal');
  assert.not.match(text, 'secret');
  const told = http.logged.find((line) => line.level === 'error');
  assert.match(String(told?.fields.err), 'secret stack');
  assert.not.match(JSON.stringify(told), 'private prompt');
});

test('history is paged and filtered, and a wrong parameter is named', async ({ api }) => {
  for (let index = 0; index < 3; index += 1)
    await api('/v1/runs', { method: 'POST', body: { prompt: 'a' } });
  const page = await api('/v1/runs?limit=2&before=run_3&state=queued&provider=local');
  assert.is(page.json.runs.length, 2);
  assert.equal(JSON.parse(page.json.next), {
    limit: 2,
    state: 'queued',
    before: 'run_3',
    provider: 'local',
  });
  const wrong: [string, string][] = [
    ['limit=0', 'limit'],
    ['limit=11', 'limit'],
    ['limit=abc', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=', 'limit'],
    ['limit=-1', 'limit'],
    ['state=none', 'state'],
    ['state=toString', 'state'],
    ['limt=1', 'limt'],
    ['before=nonsense', 'before'],
    ['before=', 'before'],
    ['limit=1&limit=2', 'limit'],
    ['__proto__=1', '__proto__'],
  ];
  for (const [query, param] of wrong) {
    const { status, json } = await api(`/v1/runs?${query}`);
    assert.is(status, 400, query);
    assert.is(json.error.param, param, query);
  }
});

test('a cancel answers when the work has stopped, and a second one gives the same answer', async ({
  http,
  api,
}) => {
  await api('/v1/runs', { method: 'POST', body: { prompt: 'a' } });
  let answered = false;
  const first = api('/v1/runs/run_1/cancel', { method: 'POST' }).finally(() => {
    answered = true;
  });
  await waitFor('the cancel to arrive', () => http.runtime.calls.includes('runs.cancel'));
  await ask(`${http.url}/livez`);
  assert.not.ok(answered);
  http.runtime.release();
  const { status, json } = await first;
  assert.is(status, 200);
  assert.is(json.state, 'cancelled');
  assert.equal((await api('/v1/runs/run_1/cancel', { method: 'POST', body: {} })).json, json);
  assert.is((await api('/v1/runs/run_9/cancel', { method: 'POST' })).status, 404);
  assert.is((await api('/v1/runs/run_1/cancel')).status, 405);
});

test('a stop is a lifecycle event, accepted once, then refused with the state and what it accepts', async ({
  http,
  api,
}) => {
  const stop = { method: 'POST', body: { type: 'stop_requested', mode: 'drain', timeout_ms: 10 } };
  const { status, json } = await api('/v1/runtime/events', stop);
  assert.is(status, 200);
  assert.equal(json, { state: 'stopping', state_path: 'stopping.closing' });
  const again = await api('/v1/runtime/events', stop);
  assert.is(again.status, 409);
  assert.is(again.json.error.code, 'event_refused');
  assert.is(again.json.error.details.state_path, 'stopping.closing');
  assert.ok(Array.isArray(again.json.error.details.accepted));
  for (const body of [
    {},
    { type: 'stop_requested', mode: 'hard' },
    { type: 'stop_requested', extra: 1 },
  ])
    assert.is((await api('/v1/runtime/events', { method: 'POST', body })).status, 400);
  assert.is(http.runtime.path, 'stopping.closing');
});

test('models are a list in the OpenAI form, without paths on disk', async ({ api }) => {
  const { json, text } = await api('/v1/models');
  assert.is(json.object, 'list');
  assert.equal(
    {
      id: json.data[0].id,
      object: json.data[0].object,
      created: json.data[0].created,
      owned_by: json.data[0].owned_by,
    },
    { id: 'local/svc-mini', object: 'model', created: 0, owned_by: 'local' },
  );
  assert.not.match(text, 'secret');
});

test('providers are those that the runtime lists', async ({ http, api }) => {
  const since = new Date(0).toISOString();
  http.runtime.providerRecords = [
    {
      id: 'x',
      kind: 'cloud',
      adapter: 'openai-compatible',
      state: 'unknown',
      reason: null,
      since,
      base_url: 'https://x',
      retry_at: null,
      transitions: [],
      credential: 'env:KEY',
      models: null,
      faulty_models: [],
      default: false,
    },
  ];
  assert.equal((await api('/v1/providers')).json, { providers: http.runtime.providerRecords });
});

test.run();
