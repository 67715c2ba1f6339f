import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createKeys } from '../../src/config/keys/keys.ts';
import type { ProviderConfig } from '../../src/config/providers/provider.ts';
import type { SvcError } from '../../src/errors.ts';
import { defaultLimits } from '../../src/limits.ts';
import type { ProviderPort } from '../../src/ports/providers.ts';
import { createRemote } from '../../src/providers/adapters.ts';
import { jsonBombs } from '../helpers/json-bombs.ts';
import { providerConfig } from '../helpers/provider-config.ts';
import { outcome, SECRET_KEY } from '../helpers/remote.ts';
import { type Scenario, Upstream } from '../helpers/upstream.ts';
import { frame } from '../helpers/wires.ts';

/** Answers of providers that cost more than their bytes: each fails by the name of its bound. */
const never = new AbortController().signal;
const folder = mkdtempSync(join(tmpdir(), 'svc-bombs-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

/** Where each adapter has its list of vectors, and how it sends two of them. */
const DATA = {
  list: (items: string) => `{"data":[${items}]}`,
  fine: { data: [1, 2].map((number, index) => ({ index, embedding: [number, 0.5] })) },
};
const FLOAT = {
  list: (items: string) =>
    `{"meta":{"billed_units":{"input_tokens":3}},"embeddings":{"float":[${items}]}}`,
  fine: {
    embeddings: {
      float: [
        [1, 0.5],
        [2, 0.5],
      ],
    },
    meta: { billed_units: { input_tokens: 3 } },
  },
};
const VALUES = {
  list: (items: string) => `{"embeddings":[${items}]}`,
  fine: { embeddings: [1, 2].map((number) => ({ values: [number, 0.5] })) },
};
const PREDICTIONS = {
  list: (items: string) => `{"predictions":[${items}]}`,
  fine: {
    predictions: [1, 2].map((number) => ({
      embeddings: { values: [number, 0.5], statistics: { token_count: 1 } },
    })),
  },
};

interface Door {
  config: Partial<ProviderConfig>;
  model?: string;
  list(items: string): string;
  fine: object;
}

const doors: Record<string, Door> = {
  'openai-compatible': { config: { adapter: 'openai-compatible' }, ...DATA },
  openai: { config: { adapter: 'openai' }, ...DATA },
  azure: { config: { adapter: 'azure' }, ...DATA },
  mistral: { config: { adapter: 'mistral' }, ...DATA },
  google: { config: { adapter: 'google' }, ...VALUES },
  vertex: { config: { adapter: 'vertex' }, ...PREDICTIONS },
  cohere: { config: { adapter: 'cohere' }, ...FLOAT },
  bedrock: {
    config: { adapter: 'bedrock', options: { region: 'us-east-1' } },
    model: 'cohere.embed-v4',
    ...FLOAT,
  },
};

function provider(base_url: string, config: Partial<ProviderConfig>): ProviderPort {
  const env = { KEY: SECRET_KEY };
  return createRemote({
    id: 'test',
    config: providerConfig({ base_url, kind: 'cloud', key: 'env:KEY', ...config }),
    env,
    keys: createKeys(env),
    limits: defaultLimits,
    adapters: folder,
  });
}

async function asked<T>(
  config: Partial<ProviderConfig>,
  scenario: Scenario,
  ask: (port: ProviderPort) => Promise<T> | undefined,
): Promise<{ value: T | null; failure: SvcError | null }> {
  const upstream = await Upstream.start(scenario);
  const port = provider(upstream.base_url, config);
  try {
    const value = await ask(port);
    return { value: value ?? null, failure: null };
  } catch (failure) {
    return { value: null, failure: failure as SvcError };
  } finally {
    await port.close();
    await upstream.stop();
  }
}

/** The end of one answer. */
async function answered(config: Partial<ProviderConfig>, scenario: Scenario) {
  const { value } = await asked(config, scenario, (port) =>
    outcome(port, { request: { seed_asked: false } }),
  );
  return { failure: value?.failure ?? null, text: value?.text ?? '' };
}

const sends =
  (body: Buffer): Scenario =>
  ({ response }) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(body);

for (const [name, { config, model = 'm', list, fine }] of Object.entries(doors)) {
  const embed = (scenario: Scenario) =>
    asked(config, scenario, (port) => port.embed?.(model, ['a', 'b'], {}, never));

  test(`${name}: vectors come as they are`, async () => {
    const { value, failure } = await embed((x) => x.reply(200, fine));
    assert.is(failure, null, failure?.message);
    assert.equal(value?.vectors, [
      [1, 0.5],
      [2, 0.5],
    ]);
  });

  for (const [bomb, { body, bound }] of Object.entries(jsonBombs(list)))
    test(`${name}: vectors that are ${bomb} fail by name`, async () => {
      const { failure } = await embed(sends(body));
      assert.match(failure?.code ?? '', /^(stream_oversized|provider_failed)$/);
      assert.match(failure?.message ?? '', bound);
      assert.is(failure?.retryable, false);
    });

  test(`${name}: a vector of another form than numbers fails by name`, async () => {
    for (const wrong of [list('1,2'), list('"a","b"'), list('{},{}'), list('[],[]'), '[]', '{}']) {
      const { failure } = await embed(sends(Buffer.from(wrong)));
      assert.is(failure?.code, 'provider_failed', wrong);
      assert.is(failure?.retryable, false, wrong);
    }
  });

  // All batches are alike, so one of the packages sees the most texts of a request.
  const count = name === 'openai-compatible' || name === 'mistral' ? 2048 : 200;
  test(`${name}: ${count} vectors of 3072 numbers are read, in their order`, async () => {
    const texts = Array.from({ length: count }, (_, at) => String(at));
    const numbers = Array.from({ length: 3071 }, (_, at) => Math.fround(Math.sin(at)));
    const rest = JSON.stringify(numbers).slice(1);
    const vectorOf = (text: string) => `[${text},${rest}`;
    const { value, failure } = await asked(
      config,
      (x) =>
        sends(
          Buffer.from(
            list(
              textsIn(x.json)
                .map((text) => shaped(name, vectorOf(text)))
                .join(','),
            ),
          ),
        )(x),
      (port) => port.embed?.(model, texts, {}, never),
    );
    assert.is(failure, null, failure?.message);
    assert.equal(
      value?.vectors.map(([first]) => first),
      texts.map(Number),
    );
    assert.equal(value?.vectors.at(-1)?.slice(1), numbers);
  });
}

/** The texts of a request, wherever its protocol has them. */
function textsIn(body: Record<string, unknown>): string[] {
  const { input, texts, requests, instances } = body;
  if (Array.isArray(input)) return input;
  if (Array.isArray(texts)) return texts;
  if (Array.isArray(instances)) return instances.map(({ content }) => content);
  if (Array.isArray(requests)) return requests.map(({ content }) => content.parts[0].text);
  throw new Error(`no texts in ${Object.keys(body)}`);
}

function shaped(name: string, vector: string): string {
  if (name === 'cohere' || name === 'bedrock') return vector;
  if (name === 'google') return `{"values":${vector}}`;
  if (name === 'vertex')
    return `{"embeddings":{"values":${vector},"statistics":{"token_count":1}}}`;
  return `{"embedding":${vector}}`;
}

const PACKAGE = `
  const zod = (list) => { for (const each of list) for (const n of each) if (typeof n !== 'number') throw new Error('no'); return list; };
  export const createOwn = ({ baseURL, fetch }) => ({
    languageModel: () => null,
    embeddingModel: (modelId) => ({
      specificationVersion: 'v4', provider: 'own', modelId, maxEmbeddingsPerCall: undefined, supportsParallelCalls: false,
      doEmbed: async ({ values }) => {
        const response = await fetch(baseURL + '/embed', { method: 'POST', body: JSON.stringify({ input: values }) });
        return { embeddings: zod((await response.json()).data), usage: { tokens: values.length }, warnings: [] };
      },
    }),
  });
`;

function install(): void {
  const at = join(folder, 'node_modules', '@me', 'own');
  mkdirSync(at, { recursive: true });
  const manifest = { name: '@me/own', type: 'module', exports: './main.js' };
  writeFileSync(join(at, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(at, 'main.js'), PACKAGE);
}

test('a package that the user names gets small batches, and its answers have a bound of their own', async () => {
  install();
  const config = { adapter: 'npm:@me/own' };
  const texts = Array.from({ length: 100 }, (_, at) => String(at));
  const rest = JSON.stringify(new Array(4095).fill(0.25)).slice(1);
  const sizes: number[] = [];
  const { value, failure } = await asked(
    config,
    (x) => {
      const asked = textsIn(x.json);
      sizes.push(asked.length);
      sends(Buffer.from(DATA.list(asked.map((text) => `[${text},${rest}`).join(','))))(x);
    },
    (port) => port.embed?.('m', texts, {}, never),
  );
  assert.is(failure, null, failure?.message);
  assert.equal(sizes, [24, 24, 24, 24, 4]);
  assert.equal(
    value?.vectors.map(([first]) => first),
    texts.map(Number),
  );
  for (const [bomb, { body, bound }] of Object.entries(jsonBombs(DATA.list))) {
    if (bomb === 'one number' || bomb === 'no UTF-8') continue;
    const { failure } = await asked(config, sends(body), (port) =>
      port.embed?.('m', ['a', 'b'], {}, never),
    );
    assert.is(failure?.code, 'stream_oversized', bomb);
    assert.match(failure?.message ?? '', bound);
  }
});

const LISTED = ['openai-compatible', 'openai', 'anthropic', 'google', 'mistral', 'cohere'];

for (const adapter of LISTED) {
  const list = (items: string) =>
    adapter === 'google' || adapter === 'cohere' ? `{"models":[${items}]}` : DATA.list(items);

  test(`${adapter}: a list of models that costs too much fails by name`, async () => {
    for (const [bomb, { body, bound }] of Object.entries(jsonBombs(list))) {
      if (bomb === 'one number') continue;
      const { failure } = await asked({ adapter }, sends(body), (port) => port.models(never));
      assert.match(failure?.code ?? '', /^(stream_oversized|provider_rejected)$/, bomb);
      const said = bomb === 'numbers' ? /values/ : bomb === 'no UTF-8' ? /not with a list/ : bound;
      assert.match(failure?.message ?? '', said);
    }
  });

  test(`${adapter}: of 20,000 models 2,000 are kept`, async () => {
    const models = Array.from({ length: 20_000 }, (_, at) => {
      const id = `models/maker-${at}/model`;
      return { id, name: id, object: 'model', created: 1, owned_by: 'me', context_length: 4096 };
    });
    const { value, failure } = await asked(
      { adapter },
      sends(Buffer.from(list(models.map((each) => JSON.stringify(each)).join(',')))),
      (port) => port.models(never),
    );
    assert.is(failure, null, failure?.message);
    assert.is(value?.length, 2000);
  });
}

test('scores that cost too much fail by name, and those of 2048 documents are read', async () => {
  const config = { adapter: 'openai-compatible' };
  const documents = Array.from({ length: 2048 }, (_, at) => String(at));
  const rank = (scenario: Scenario) =>
    asked(config, scenario, (port) => port.rank?.('m', 'why?', documents, never));
  for (const [bomb, { body, bound }] of Object.entries(
    jsonBombs((items) => `{"results":[${items}]}`),
  )) {
    const { failure } = await rank(sends(body));
    assert.match(failure?.code ?? '', /^(stream_oversized|provider_failed)$/, bomb);
    assert.match(failure?.message ?? '', bomb === 'numbers' ? /100000 values/ : bound);
  }
  const results = documents.map((text, index) => ({
    index,
    relevance_score: index / 4096,
    document: { text, id: text },
    more: [1, 2, 3],
  }));
  const { value } = await rank((x) => x.reply(200, { results, usage: { total_tokens: 9 } }));
  assert.equal(
    value?.scores,
    results.map(({ relevance_score }) => relevance_score),
  );
});

/** A whole answer of each protocol, and the place of its parts. */
const WHOLE: Record<string, (items: string) => string> = {
  'openai-compatible': (items) => `{"choices":[${items}]}`,
  openai: (items) => `{"id":"x","created_at":1,"model":"m","output":[${items}]}`,
  anthropic: (items) => `{"type":"message","id":"x","model":"m","content":[${items}]}`,
  mistral: (items) => `{"id":"x","created":1,"model":"m","choices":[${items}]}`,
  google: (items) => `{"candidates":[{"content":{"parts":[${items}]}}]}`,
  cohere: (items) => `{"message":{"role":"assistant","content":[${items}]}}`,
  bedrock: (items) => `{"output":{"message":{"role":"assistant","content":[${items}]}}}`,
};

for (const [adapter, list] of Object.entries(WHOLE))
  test(`${adapter}: a whole answer that costs too much fails by name`, async () => {
    const config = {
      adapter,
      stream: false,
      ...(adapter === 'bedrock' ? { options: { region: 'us-east-1' } } : {}),
    };
    for (const [bomb, { body, bound }] of Object.entries(jsonBombs(list, 0.95))) {
      if (bomb === 'one number' || bomb === 'no UTF-8' || bomb === 'many keys') continue;
      const { failure } = await answered(config, sends(body));
      assert.is(failure?.code, 'stream_oversized', bomb);
      assert.match(failure?.message ?? '', bomb === 'numbers' ? /values/ : bound);
    }
  });

test('the arguments of a call have a bound of their own, wherever their pieces are cut', async () => {
  const call = (name: string, text: string) => ({
    choices: [
      {
        index: 0,
        delta: { tool_calls: [{ index: 0, id: 'a', function: { name, arguments: text } }] },
      },
    ],
  });
  const answer = (pieces: readonly string[]) =>
    answered({ adapter: 'openai-compatible' }, async (x) => {
      x.open();
      await x.event(call('look', ''));
      for (const piece of pieces) await x.event(call('', piece)).catch(() => undefined);
      await x.finish('tool_calls').catch(() => undefined);
      await x.done().catch(() => undefined);
    });
  const most = ['{"a":[', '1,'.repeat(49_000), '1,'.repeat(50_000), '"1', '"]}'];
  assert.is((await answer(most)).failure, null);
  const { failure } = await answer([...most.slice(0, 3), '1,'.repeat(1000), '1]}']);
  assert.is(failure?.code, 'stream_oversized');
  assert.match(
    failure?.message ?? '',
    'arguments of a call than the daemon accepts (100000 values)',
  );
});

test('a frame of Amazon with too many values fails by name, and one below the bound does not', async () => {
  const config = { adapter: 'bedrock', options: { region: 'us-east-1' } };
  const name = 'contentBlockDelta';
  const answer = async (numbers: number) => {
    const more = new Array(numbers).fill(1);
    const body = [
      frame(name, { contentBlockIndex: 0, delta: { text: 'Hel' }, more }),
      frame(name, { contentBlockIndex: 0, delta: { text: 'lo' }, more }),
      frame('messageStop', { stopReason: 'end_turn' }),
      frame('metadata', { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } }),
    ];
    return answered(config, ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' });
      response.end(Buffer.from(body.join(''), 'latin1'));
    });
  };
  const { text, failure } = await answer(9000);
  assert.is(failure, null, failure?.message);
  assert.is(text, 'Hello');
  const over = await answer(10_000);
  assert.is(over.failure?.code, 'stream_oversized');
  assert.match(over.failure?.message ?? '', 'one event than the daemon accepts (10000 values)');
});

test.run();
