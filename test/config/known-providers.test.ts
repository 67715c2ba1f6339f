import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isLoopback } from '../../src/config/address.ts';
import { adapterSpec } from '../../src/config/providers/adapters.ts';
import { type KnownProvider, knownProviders } from '../../src/config/providers/known-providers.ts';
import { type ProviderConfig, readProvider } from '../../src/config/providers/provider.ts';

const rows = Object.entries<KnownProvider>(knownProviders);
const read = (id: string, settings: object = {}) => readProvider(id, settings, 'here');

/** What the rows without an address of their own need besides. */
const MORE: Record<string, Partial<ProviderConfig>> = {
  bedrock: { options: { region: 'us-east-1' } },
  azure: { options: { resource: 'mine' } },
  vertex: { options: { project: 'mine', region: 'global' } },
};

for (const [id, row] of rows)
  test(`the known provider ${id} is complete by its id`, () => {
    const config = read(id, MORE[id]);
    assert.is(config.like, id);
    assert.is(config.adapter, row.adapter);
    assert.is(config.base_url, row.base_url ?? adapterSpec(row.adapter)?.base_url ?? null);
    assert.is(config.key, row.key_env === null ? null : `env:${row.key_env}`);
    assert.is(config.model, row.model);
    assert.is(config.kind, row.kind);
  });

test('a known server is on this machine, a known cloud is not and has https', () => {
  for (const [id, { kind, base_url }] of rows) {
    if (base_url === null) continue;
    const { hostname, protocol } = new URL(base_url);
    assert.is(isLoopback(hostname), kind === 'local', id);
    assert.ok(kind === 'local' || protocol === 'https:', id);
  }
});

test('a cloud with a key says where keys are made', () => {
  for (const [id, { key_env, keys_at }] of rows)
    assert.ok(key_env === null || keys_at !== null, id);
});

test('settings of 0.1.0 mean the same as before, also under a known name', () => {
  const before = { base_url: 'https://proxy.example/v1', key_env: 'MY_KEY' };
  assert.equal(read('openai', before), {
    like: null,
    adapter: 'openai-compatible',
    kind: 'cloud',
    base_url: 'https://proxy.example/v1',
    model: null,
    key: 'env:MY_KEY',
    headers: {},
    options: {},
    stream: true,
    max_runs: null,
    command: null,
    memory_bytes: null,
  });
  assert.is(read('openai', { base_url: 'https://proxy.example/v1' }).key, null);
});

test('another id takes a known provider by like, and each value can be set otherwise', () => {
  const work = read('work', { like: 'anthropic', model: 'mine', key: 'file:/run/key' });
  assert.is(work.adapter, 'anthropic');
  assert.is(work.base_url, 'https://api.anthropic.com/v1');
  assert.is(work.model, 'mine');
  assert.is(work.key, 'file:/run/key');
  assert.is(read('openai', { key: null }).key, null);
  assert.is(read('openai', { like: null, base_url: 'http://a/v1' }).like, null);
});

test('the usual key of a known provider goes to no other address', () => {
  const elsewhere = { like: 'openai', base_url: 'https://proxy.example/v1' };
  assert.is(read('work', elsewhere).key, null);
  assert.is(read('work', { ...elsewhere, key_env: 'OPENAI_API_KEY' }).key, 'env:OPENAI_API_KEY');
  assert.is(read('work', { like: 'openai', adapter: 'npm:@ai-sdk/xai' }).key, null);
});

test('the kind follows the address that is given', () => {
  assert.is(read('gpu', { like: 'ollama', base_url: 'http://10.0.0.5:11434/v1' }).kind, 'cloud');
  assert.is(read('mock', { like: 'openai', base_url: 'http://127.0.0.1:1/v1' }).kind, 'local');
});

test('a package of npm may have any options', () => {
  const config = read('x', { adapter: 'npm:@scope/pack-age', options: { anything: 'goes' } });
  assert.equal(config.options, { anything: 'goes' });
  assert.is(config.kind, 'cloud');
  for (const adapter of ['npm:', 'npm:./x', 'npm:/x', 'npm:a/b', 'npm:@a', 'npm:node:fs', 'npm:A'])
    assert.throws(() => read('x', { adapter }), /adapter must be one of/, adapter);
});

test.run();
