import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createKeys } from '../../../src/config/keys/keys.ts';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import type { SvcError } from '../../../src/errors.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { createRemote } from '../../../src/providers/adapters.ts';
import { providerConfig } from '../../helpers/provider-config.ts';
import { outcome, SECRET_KEY } from '../../helpers/remote.ts';
import { type Exchange, type Received, Upstream } from '../../helpers/upstream.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-adapters-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));
const never = new AbortController().signal;

/** A package of npm in the folder of adapters. */
function install(name: string, main: string, manifest: object = {}): void {
  const at = join(folder, 'node_modules', name);
  mkdirSync(at, { recursive: true });
  const exports = { '.': { types: './index.d.ts', import: './main.js', default: './main.js' } };
  writeFileSync(
    join(at, 'package.json'),
    JSON.stringify({ name, type: 'module', exports, ...manifest }),
  );
  writeFileSync(join(at, 'main.js'), main);
}

const provider = (config: Partial<ProviderConfig>, env: NodeJS.ProcessEnv = { KEY: SECRET_KEY }) =>
  createRemote({
    id: 'test',
    config: providerConfig({ base_url: null, kind: 'cloud', ...config }),
    env,
    keys: createKeys(env),
    limits: defaultLimits,
    adapters: folder,
  });

async function withServer<T>(
  scenario: (x: Exchange) => unknown,
  use: (base_url: string, received: Received[]) => Promise<T>,
): Promise<T> {
  const upstream = await Upstream.start(scenario);
  try {
    return await use(upstream.base_url, upstream.received);
  } finally {
    await upstream.stop();
  }
}

test('sound reaches a protocol that has a place for it, and is refused by name by the others', async () => {
  const sound = { type: 'audio', media_type: 'audio/wav', data: 'UklGRgAAAABXQVZF' } as const;
  const request = { messages: [{ role: 'user', content: [sound] }] } as const;
  const heard = async (config: Partial<ProviderConfig>) =>
    withServer(
      (x) => x.reply(400, {}),
      async (base_url, received) => {
        const { failure } = await outcome(provider({ ...config, base_url, key: 'env:KEY' }), {
          request,
        });
        return [failure?.code, received.some(({ body }) => body.includes(sound.data))];
      },
    );
  const chat = { adapter: 'openai', options: { api: 'chat' } };
  for (const config of [{ adapter: 'google' }, chat, { adapter: 'openai-compatible' }])
    assert.equal(await heard(config), ['provider_rejected', true], config.adapter);
  for (const adapter of ['openai', 'anthropic', 'mistral', 'cohere'])
    assert.equal(await heard({ adapter }), ['capability_missing', false], adapter);
});

test('a package that is not installed is named, with the command that installs it', async () => {
  const { failure } = await outcome(provider({ adapter: 'npm:not-there-at-all' }));
  assert.is(failure?.code, 'provider_adapter_missing');
  assert.match(
    failure?.message ?? '',
    'needs the package not-there-at-all, which is not installed',
  );
  assert.is(failure?.hint, `Install it with: npm install --prefix "${folder}" not-there-at-all`);
  assert.not.ok(failure?.retryable);
});

const MODEL = `
  const model = (settings, id) => ({
    specificationVersion: 'v4', provider: 'own', modelId: id, supportedUrls: {},
    doStream: async ({ prompt }) => {
      const response = await settings.fetch(settings.baseURL + '/ask', {
        method: 'POST', headers: { ...settings.headers, 'x-own': settings.apiKey, 'x-zone': settings.zone },
        body: JSON.stringify({ id, prompt }),
      });
      const { text } = await response.json();
      return { stream: new ReadableStream({ start(controller) {
        controller.enqueue({ type: 'stream-start', warnings: [] });
        controller.enqueue({ type: 'text-delta', id: '0', delta: text });
        controller.enqueue({ type: 'ping' });
        controller.enqueue({ type: 'finish', finishReason: { unified: 'stop', raw: 'done' }, usage: {
          inputTokens: { total: 1 }, outputTokens: { total: 2 } } });
        controller.close();
      } }) };
    },
  });
  export const createOwn = (settings) => ({ languageModel: (id) => model(settings, id) });
`;

test('any package of the interface answers, with the options, the key and the headers', async () => {
  install('@me/own', MODEL);
  await withServer(
    (x) => x.reply(200, { text: 'Hello' }),
    async (base_url, received) => {
      const own = provider({
        adapter: 'npm:@me/own',
        base_url,
        key: 'env:KEY',
        headers: { 'x-team': 'blue' },
        options: { zone: 'north' },
      });
      const { failure, text, finish } = await outcome(own, { request: { model: 'big' } });
      assert.is(failure, null, failure?.message);
      assert.is(text, 'Hello');
      assert.equal(finish?.usage, { input_tokens: 1, output_tokens: 2 });
      const { headers, body } = received[0] as Received;
      assert.is(headers['x-own'], SECRET_KEY);
      assert.is(headers['x-team'], 'blue');
      assert.is(headers['x-zone'], 'north');
      assert.is(JSON.parse(body).id, 'big');
      await own.close();
    },
  );
});

for (const [what, main, message] of [
  [
    'speaks an older version',
    "export const createOld = () => () => ({ specificationVersion: 'v2' })",
    'has version v2 of the interface; svc takes v4',
  ],
  [
    'has two factories',
    'export const createA = () => {}; export function createB() {}',
    'it has createA, createB. The option factory names one',
  ],
  ['makes no provider', 'export const nothing = 1', 'it has none'],
  ['cannot be loaded', "throw new Error('secret')", 'is installed, but cannot be loaded'],
] as const)
  test(`a package that ${what} is refused`, async () => {
    const name = `bad-${what.replaceAll(' ', '-')}`;
    install(name, main);
    const { failure } = await outcome(provider({ adapter: `npm:${name}` }));
    assert.is(failure?.code, 'provider_adapter_missing');
    assert.match(failure?.message ?? '', message);
    assert.not.match(failure?.message ?? '', 'secret');
  });

test('a provider without a key takes none from the variables of the packages', async () => {
  const before = process.env.ANTHROPIC_API_KEY;
  process.env.ANTHROPIC_API_KEY = SECRET_KEY;
  try {
    await withServer(
      (x) => x.reply(401, { error: { message: 'no key' } }),
      async (base_url, received) => {
        const bare = provider({ adapter: 'anthropic', base_url });
        const { failure } = await outcome(bare, { request: { seed_asked: false } });
        assert.is(failure?.code, 'provider_unauthorised');
        assert.is(received[0]?.headers['x-api-key'], undefined);
        await bare.close();
      },
    );
  } finally {
    if (before === undefined) delete process.env.ANTHROPIC_API_KEY;
    else process.env.ANTHROPIC_API_KEY = before;
  }
});

const lists: [adapter: string, path: string, header: string, body: object][] = [
  ['openai', '/v1/models', 'authorization', { data: [{ id: 'a' }, { id: 'b' }] }],
  ['anthropic', '/v1/models?limit=1000', 'x-api-key', { data: [{ id: 'a' }, { id: 'b' }] }],
  [
    'google',
    '/v1/models?pageSize=1000',
    'x-goog-api-key',
    { models: [{ name: 'models/a' }, { name: 'models/b' }] },
  ],
  ['mistral', '/v1/models', 'authorization', { data: [{ id: 'a' }, { id: 'b' }] }],
  [
    'cohere',
    '/v1/models?page_size=1000',
    'authorization',
    { models: [{ name: 'a' }, { name: 'b' }] },
  ],
];
for (const [adapter, path, header, body] of lists)
  test(`${adapter} lists its models`, () =>
    withServer(
      (x) => x.reply(200, body),
      async (base_url, received) => {
        const listed = provider({
          adapter,
          base_url,
          key: 'env:KEY',
          headers: { 'x-team': 'blue' },
        });
        assert.equal(
          (await listed.models(never)).map(({ name }) => name),
          ['a', 'b'],
        );
        assert.is(received[0]?.path, path);
        assert.match(String(received[0]?.headers[header]), SECRET_KEY);
        assert.is(received[0]?.headers['x-team'], 'blue');
        await listed.close();
      },
    ));

test('a provider without a list checks its key and its package, and asks nothing', () =>
  withServer(
    () => assert.unreachable('it was asked'),
    async (base_url, received) => {
      const bedrock = { adapter: 'bedrock', base_url, options: { region: 'us-east-1' } };
      assert.equal(await provider({ ...bedrock, key: 'env:KEY' }).models(never), []);
      const keyless = provider({ ...bedrock, key: 'env:NONE' });
      const error = await keyless.models(never).catch((thrown: unknown) => thrown as SvcError);
      assert.is((error as SvcError).code, 'provider_unauthorised');
      assert.is(received.length, 0);
    },
  ));

test('embeddings come in batches, with their dimensions', () =>
  withServer(
    (x) => {
      const { input } = x.json as { input: string[] };
      const data = input.map((text, index) => ({ index, embedding: [Number(text), 1] }));
      x.reply(200, { data, usage: { prompt_tokens: input.length } });
    },
    async (base_url, received) => {
      const openai = provider({ adapter: 'openai', base_url, key: 'env:KEY' });
      const texts = Array.from({ length: 100 }, (_, index) => String(index));
      const found = await openai.embed?.('e', texts, { dimensions: 2 }, never);
      assert.equal(
        found?.vectors,
        texts.map((text) => [Number(text), 1]),
      );
      assert.is(found?.input_tokens, 100);
      assert.is(JSON.parse(received[0]?.body ?? '').dimensions, 2);
      assert.is(received.length, 2);
      assert.is(provider({ adapter: 'anthropic', base_url }).embed, undefined);
      await openai.close();
    },
  ));

test('one connection serves one request after the other', () => {
  const sockets = new Set<unknown>();
  return withServer(
    (x) => {
      sockets.add(x.socket);
      x.reply(200, { data: [{ index: 0, embedding: [1] }], usage: { prompt_tokens: 1 } });
    },
    async (base_url, received) => {
      const openai = provider({ adapter: 'openai', base_url, key: 'env:KEY' });
      for (const text of ['a', 'b']) await openai.embed?.('e', [text], {}, never);
      assert.is(received.length, 2);
      assert.is(sockets.size, 1);
      await openai.close();
    },
  );
});

test('a whole answer is asked for and read where stream is off', () =>
  withServer(
    (x) =>
      x.reply(200, {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [{ type: 'text', text: 'Hello' }],
        stop_reason: 'end_turn',
        stop_sequence: null,
        usage: { input_tokens: 3, output_tokens: 5 },
      }),
    async (base_url, received) => {
      const calm = provider({ adapter: 'anthropic', base_url, key: 'env:KEY', stream: false });
      const { text, finish, failure } = await outcome(calm, { request: { seed_asked: false } });
      assert.is(failure, null, failure?.message);
      assert.is(text, 'Hello');
      assert.is(finish?.usage.output_tokens, 5);
      assert.is.not(JSON.parse(received[0]?.body ?? '').stream, true);
      await calm.close();
    },
  ));

test.run();
