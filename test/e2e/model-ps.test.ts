import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LoadedRecord } from '../../src/contract/contract.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

let home: Home;

test.before(async () => {
  home = makeHome({ SVC_MODEL: 'tiny', SVC_ENGINE_THREADS: '1' });
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  makeGguf(join(home.paths.models, 'tiny.gguf'), { template: null });
  makeGguf(join(home.paths.models, 'other.gguf'), { template: null });
  assert.is((await home.svc(['start'])).code, 0);
});
test.after(() => home.close());

async function json<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await home.svc([...args, '--json']);
  assert.is(code, 0, stderr);
  return JSON.parse(stdout) as T;
}

const names = async () =>
  (await json<LoadedRecord>('model', 'ps')).models.map(({ name }) => name).sort();

async function ask(method: string, path: string, body?: object): Promise<[number, unknown]> {
  const { addresses } = await json<{ addresses: { http: string } }>('status');
  const response = await fetch(`${addresses.http}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${readFileSync(home.paths.token, 'utf8').trim()}`,
      'content-type': 'application/json',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return [response.status, await response.json()];
}

test('a model is loaded, shown with its memory and its time, and unloaded by the command line', async () => {
  const loaded = await json<LoadedRecord['models'][number]>(
    'model',
    'load',
    'other',
    '--keep-alive',
    '2h',
  );
  assert.equal([loaded.id, loaded.keep_alive_ms], ['local/other', 7_200_000]);
  assert.ok((loaded.memory_bytes ?? 0) > 0);
  assert.ok((await names()).includes('other'));
  const shown = await home.svc(['model', 'ps']);
  assert.match(
    shown.stdout,
    /^local\/other +answers +idle +\d+ MiB +0 +1 thread +\d+ +in (120|119) min/m,
  );
  assert.match(shown.stderr, /Reserved: .* for local models\./);
  assert.match((await home.svc(['model', 'load', 'other'])).stdout, /other is in memory already: /);
  const freed_bytes = loaded.memory_bytes;
  assert.equal(await json('model', 'unload', 'other'), { unloaded: 'local/other', freed_bytes });
  assert.match((await home.svc(['model', 'unload', 'other'])).stdout, /other was not in memory\./);
  assert.not((await names()).includes('other'));
});

test('an unknown model and a wrong time are refused', async () => {
  assert.is((await home.svc(['model', 'load', 'absent'])).code, 7);
  assert.is((await home.svc(['model', 'load', 'other', '--keep-alive', 'soon'])).code, 2);
});

test('the routes and those of Ollama show, load and unload the same models', async () => {
  assert.is((await ask('POST', '/api/generate', { model: 'other', keep_alive: -1 }))[0], 200);
  const [, { models }] = (await ask('GET', '/v1/models/loaded')) as [number, LoadedRecord];
  const other = models.find(({ name }) => name === 'other');
  assert.equal([other?.state, other?.expires_at], ['idle', null]);
  const [, ps] = await ask('GET', '/api/ps');
  assert.ok(
    (ps as { models: { name: string }[] }).models.some(({ name }) => name === 'local/other:latest'),
  );
  const gone = await ask('POST', '/api/generate', { model: 'other', keep_alive: 0 });
  assert.is((gone[1] as { done_reason: string }).done_reason, 'unload');
  assert.not((await names()).includes('other'));
  assert.is((await ask('POST', '/v1/models/load', { model: 'other' }))[0], 200);
  const answer = await ask('POST', '/v1/models/unload', { model: 'other' });
  const [status, { unloaded, freed_bytes }] = answer as [number, Record<string, unknown>];
  assert.equal([status, unloaded], [200, 'local/other']);
  assert.ok(Number(freed_bytes) > 0);
});

test('a run with keep_alive of Ollama decides how long its model stays', async () => {
  const body = { model: 'other', prompt: 'hello', stream: false, keep_alive: '3h' };
  const [status] = await ask('POST', '/api/generate', { ...body, options: { num_predict: 3 } });
  assert.is(status, 200);
  const { models } = await json<LoadedRecord>('model', 'ps');
  assert.is(models.find(({ name }) => name === 'other')?.keep_alive_ms, 10_800_000);
});

test.run();
