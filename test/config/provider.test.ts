import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Config, loadConfig } from '../../src/config/config.ts';
import { readProvider } from '../../src/config/providers/provider.ts';
import { SvcError } from '../../src/errors.ts';
import { providerConfig } from '../helpers/provider-config.ts';

const home = mkdtempSync(join(tmpdir(), 'svc-provider-'));
const file = join(home, 'config.json');
test.after(() => rmSync(home, { recursive: true, force: true }));

function load(text: string): Config {
  writeFileSync(file, text);
  return loadConfig(file, { env: {} });
}

/** The message, the file shown as `file`. */
function refused(text: string): string {
  try {
    load(text);
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'config_invalid');
    return (error as SvcError).message.replaceAll(file, 'file');
  }
  throw new Error('it was accepted');
}

test('a provider is local on this machine and cloud elsewhere, unless it says so', () => {
  const { providers, sources } = load(`{"providers": {
    "ollama": {"base_url": "http://127.0.0.1:11434/v1/", "model": "llama3.2"},
    "lan": {"base_url": "http://192.168.1.5:8000/v1", "kind": "local"},
    "openai": {"base_url": "HTTPS://API.openai.com/v1", "key_env": "OPENAI_API_KEY", "adapter": "openai-compatible", "model": null}
  }}`);
  assert.equal(
    { ...providers },
    {
      ollama: providerConfig({ base_url: 'http://127.0.0.1:11434/v1', model: 'llama3.2' }),
      lan: providerConfig({ base_url: 'http://192.168.1.5:8000/v1', model: null }),
      openai: providerConfig({
        kind: 'cloud',
        base_url: 'https://api.openai.com/v1',
        model: null,
        key: 'env:OPENAI_API_KEY',
      }),
    },
  );
  assert.is(sources['providers.ollama'], 'file');
});

test('a provider that is not configured is not there, whatever its name', () => {
  const id: string = 'constructor';
  assert.is(load('{}').providers[id], undefined);
  assert.is(
    load('{"providers": {"constructor": {"base_url": "http://a/v1"}}}').providers[id]?.base_url,
    'http://a/v1',
  );
});

const BASE_URL = 'base_url must be an http or https address';
const COMMAND =
  'command must be a list of at most 256 texts: the path or the name of a program first';
const wrong: [settings: string, field: string | null, what: string][] = [
  ['{}', null, 'base_url is missing; it is an http or https address'],
  ['{"base_url": 5}', 'base_url', BASE_URL],
  ['{"base_url": "ftp://a/v1"}', 'base_url', BASE_URL],
  ['{"base_url": "file:///etc/passwd"}', 'base_url', BASE_URL],
  ['{"base_url": "javascript:alert(1)"}', 'base_url', BASE_URL],
  ['{"base_url": "127.0.0.1:1/v1"}', 'base_url', BASE_URL],
  [
    '{"base_url": "https://me:secret@a/v1"}',
    'base_url',
    'base_url must not hold credentials; name their place with key',
  ],
  [
    '{"base_url": "https://a/v1?key=secret"}',
    'base_url',
    'base_url must not have a query or a fragment',
  ],
  [
    '{"base_url": "https://a/v1", "modle": "m"}',
    'modle',
    '"modle" is not a setting; there are like, adapter, kind, base_url, model, key, headers, options, stream, max_runs, command, memory_bytes',
  ],
  ['{"command": "llama-server"}', 'command', COMMAND],
  ['{"command": []}', 'command', COMMAND],
  ['{"command": ["x", 1]}', 'command', COMMAND],
  ['{"command": ["x", "a\\u0000b"]}', 'command', COMMAND],
  [
    '{"command": ["./llama-server"]}',
    'command',
    'command has "./llama-server"; a path of a program must be absolute',
  ],
  [
    '{"command": ["x"], "base_url": "http://127.0.0.1:1/v1"}',
    'base_url',
    'base_url and command exclude each other',
  ],
  [
    '{"command": ["x"], "key": "env:A"}',
    'key',
    'key and command exclude each other: svc makes a key itself',
  ],
  ['{"command": ["x"], "kind": "cloud"}', 'kind', 'a server of command has the kind local'],
  [
    '{"command": ["x"], "adapter": "openai"}',
    'adapter',
    'a server of command has the adapter openai-compatible',
  ],
  [
    '{"command": ["x"], "memory_bytes": -1}',
    'memory_bytes',
    'memory_bytes must be a whole number of bytes',
  ],
  ['{"base_url": "https://a/v1", "kind": "edge"}', 'kind', 'kind must be "local" or "cloud"'],
  [
    '{"base_url": "https://a/v1", "adapter": "grpc"}',
    'adapter',
    'adapter must be one of openai-compatible, openai, anthropic, google, mistral, cohere, bedrock, azure, vertex, or npm:<package>',
  ],
  ['{"base_url": "https://a/v1", "model": ""}', 'model', 'model must be the name of a model'],
  [
    '{"base_url": "https://a/v1", "key_env": "sk-secret"}',
    'key_env',
    'key_env must name an environment variable; it is not the key',
  ],
  [
    '{"base_url": "https://a/v1", "key": "sk-secret"}',
    'key',
    'key must be a reference such as "env:OPENAI_API_KEY" or "file:/path/to/key"; it is not the key',
  ],
  [
    '{"base_url": "https://a/v1", "key": "file:secret"}',
    'key',
    'key must be a reference such as "env:OPENAI_API_KEY" or "file:/path/to/key"; it is not the key',
  ],
  [
    '{"base_url": "https://a/v1", "key": "env:A", "key_env": "B"}',
    'key_env',
    'key_env is the old name of key, and both are set',
  ],
  [
    '{"adapter": "npm:../../evil"}',
    'adapter',
    'adapter must be one of openai-compatible, openai, anthropic, google, mistral, cohere, bedrock, azure, vertex, or npm:<package>',
  ],
  [
    '{"base_url": "https://a/v1", "headers": {"X-Api-Key": "secret"}}',
    'headers',
    'headers must not hold credentials, such as "X-Api-Key"; use key',
  ],
  [
    '{"base_url": "https://a/v1", "headers": {"Host": "b"}}',
    'headers',
    'headers must not have "Host", which svc sets itself',
  ],
  [
    '{"base_url": "https://a/v1", "headers": {"x y": "b"}}',
    'headers',
    'headers has "x y", which is not valid in HTTP',
  ],
  [
    '{"base_url": "https://a/v1", "options": {"region": "x"}}',
    'options',
    '"region" is not an option of openai-compatible; it has organization, project, key_header, max_tokens_field',
  ],
  ['{"like": "bedrock"}', null, 'the adapter bedrock needs region'],
  ['{"like": "azure"}', null, 'the adapter azure needs resource or base_url'],
  ['{"base_url": "https://a/v1", "stream": 1}', 'stream', 'stream must be true or false'],
  ['[]', null, 'its settings must be an object'],
  ['"http://a"', null, 'its settings must be an object'],
];

for (const [settings, field, what] of wrong) {
  test(`refused: a provider with ${settings}`, () => {
    const before = '{"providers": {';
    const column =
      field === null ? before.length : `${before}"x": `.length + settings.indexOf(`"${field}"`);
    const told = refused(`${before}"x": ${settings}}}`);
    assert.is(told, `file:1:${column + 1}: provider "x": ${what}.`);
    assert.not.match(told, 'secret');
  });
}

test('an id is a short name, and not the name of the engine', () => {
  const settings = { base_url: 'http://a/v1' };
  for (const id of ['a', 'open-router_2', 'x'.repeat(40)])
    assert.is(readProvider(id, settings, 'here').kind, 'cloud', id);
  for (const id of ['', 'A', '1a', 'a/b', 'a b', '__proto__', '../x', 'x'.repeat(41), 'ä', 'a\n']) {
    assert.throws(() => readProvider(id, settings, 'here'), /an id is a lower-case letter/, id);
  }
  assert.throws(
    () => readProvider('local', settings, 'here'),
    /here: provider "local": local is the built-in engine\./,
  );
});

test('the caller chooses the error code of a mistake', () => {
  assert.throws(
    () => readProvider('x', {}, 'provider add', 'invalid_request'),
    (error: SvcError) => error.code === 'invalid_request' && error.param === 'base_url',
  );
});

test.run();
