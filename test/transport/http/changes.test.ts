import { once } from 'node:events';
import { request } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { operationRoutes } from '../../../src/transport/http/operations.ts';
import { scopeOf } from '../../../src/transport/http/route.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, type Booted, boot } from './boot.ts';

/** Changes of models and providers over HTTP. */
const test = suite('changes');
let http: Booted;
test.before.each(async () => {
  http = await boot();
});
test.after.each(() => http.close());

const post = (path: string, body: object) =>
  ask(`${http.url}${path}`, { method: 'POST', body, headers: BEARER });
const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
/** Replaces methods of the runtime. */
const instead = (part: 'pulls' | 'providers' | 'models', methods: object) =>
  Object.assign(http.runtime[part], methods);

test('each of them needs the scope admin', async () => {
  const paths = /^\/v1\/(models\/(pull|remove)|providers)/;
  const changing = operationRoutes.filter(
    ({ method, path }) => method !== 'GET' && paths.test(path),
  );
  assert.is(changing.length, 6);
  for (const route of changing) {
    assert.is(scopeOf(route), 'admin', route.path);
    assert.is(route.access, 'token');
    const path = route.path.replace(':id', 'held');
    assert.is((await ask(`${http.url}${path}`, { method: route.method })).status, 401, path);
  }
});

test('a pull answers with its record at each change, one a line', async () => {
  let asked: unknown;
  instead('pulls', {
    async *pull(input: unknown) {
      asked = input;
      yield { id: 'pull_1', state: 'downloading', bytes: 1 };
      yield { id: 'pull_1', state: 'completed', bytes: 2 };
    },
  });
  const { status, headers, text } = await post('/v1/models/pull', { reference: 'qwen3:0.6b' });
  assert.is(status, 200);
  assert.is(headers['content-type'], 'application/x-ndjson');
  assert.is(headers['x-svc-run-id'], undefined);
  assert.equal(
    lines(text).map(({ state }) => state),
    ['downloading', 'completed'],
  );
  assert.equal(asked, { reference: 'qwen3:0.6b', name: null, sha256: null });
});

test('a pull that fails at once is an HTTP error, and later the error is the last line', async () => {
  const failing = (records: object[]) =>
    instead('pulls', {
      async *pull() {
        yield* records;
        throw new SvcError('model_unknown', 'There is no such model.');
      },
    });
  failing([]);
  const early = await post('/v1/models/pull', { reference: 'x' });
  assert.equal([early.status, early.json.error.code], [404, 'model_unknown']);
  failing([{ id: 'pull_1', state: 'resolving' }]);
  const late = await post('/v1/models/pull', { reference: 'x' });
  assert.is(late.status, 200);
  assert.is(lines(late.text).at(-1).error.code, 'model_unknown');
});

test('a client that leaves ends its pull', async () => {
  let signal: AbortSignal | null = null;
  instead('pulls', {
    async *pull(_: unknown, __: string, given: AbortSignal) {
      signal = given;
      yield { id: 'pull_1', state: 'downloading' };
      await once(given, 'abort');
    },
  });
  const asking = request(`${http.url}/v1/models/pull`, {
    method: 'POST',
    headers: { ...BEARER, 'content-type': 'application/json' },
  });
  asking.on('error', () => {}).end('{"reference":"x"}');
  const [answer] = await once(asking, 'response');
  await once(answer, 'data');
  asking.destroy();
  await waitFor('the pull is aborted', () => signal?.aborted === true);
});

test('a provider is added by its id, or at an address of this machine', async () => {
  const added: unknown[] = [];
  instead('providers', {
    add: async (input: unknown) => {
      added.push(input);
      return { id: 'it' };
    },
  });
  const own = { id: 'mine', base_url: 'http://127.0.0.1:8000/v1', model: 'm' };
  for (const input of [{ id: 'openai' }, own])
    assert.is((await post('/v1/providers', input)).status, 200);
  assert.equal(added, [{ id: 'openai' }, own]);
});

test('no request can send a key of the daemon to another server', async () => {
  instead('providers', { add: () => assert.unreachable('it was added') });
  const elsewhere = ['https://evil.example/v1', 'http://10.0.0.1/v1', 'evil', 'file:///etc/passwd'];
  for (const base_url of elsewhere) {
    const { status, json } = await post('/v1/providers', { id: 'evil', base_url });
    assert.equal([status, json.error.param], [400, 'base_url'], base_url);
  }
  for (const field of ['key', 'key_env', 'headers', 'adapter', 'like', 'options'])
    assert.is(
      (await post('/v1/providers', { id: 'evil', [field]: 'env:HOME' })).status,
      400,
      field,
    );
});

test('a provider is tested, chosen and removed by its id, and a model by its own', async () => {
  const asked: string[] = [];
  const noted = (what: string) => async (id: string) => {
    asked.push(`${what} ${id}`);
    return { id };
  };
  instead('providers', { test: noted('test'), use: noted('use'), remove: noted('remove') });
  instead('models', { remove: noted('model') });
  await post('/v1/providers/a%2Fb/test', {});
  await post('/v1/providers/held/default', {});
  await ask(`${http.url}/v1/providers/held`, { method: 'DELETE', headers: BEARER });
  const { json } = await post('/v1/models/remove', { model: 'local/m' });
  assert.equal(json, { removed: 'local/m' });
  assert.equal(asked, ['test a/b', 'use held', 'remove held', 'model local/m']);
});

test.run();
