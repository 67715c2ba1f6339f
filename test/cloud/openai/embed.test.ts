import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EmbedText } from '../../../src/contract/embed-input.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { ProviderPort } from '../../../src/ports/providers.ts';
import { type RemoteOptions, remote, SECRET_KEY } from '../../helpers/remote.ts';
import { type Scenario, Upstream } from '../../helpers/upstream.ts';

/** The outcome of one request against a scripted upstream. */
async function embed(
  scenario: Scenario,
  texts: EmbedText[] = ['a', 'b'],
  {
    signal = new AbortController().signal,
    ...options
  }: RemoteOptions & { signal?: AbortSignal } = {},
  dimensions?: number,
) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, options);
  try {
    const asked = dimensions === undefined ? {} : { dimensions };
    const result = await askEmbed(provider, texts, asked, signal).then(
      (embedding) => ({ ...embedding, failure: null }),
      (failure: SvcError) => ({ vectors: null, input_tokens: null, failure }),
    );
    return { ...result, received: upstream.received };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

function askEmbed(
  provider: ProviderPort,
  texts: EmbedText[],
  asked: { dimensions?: number },
  signal: AbortSignal,
) {
  if (provider.embed === undefined) throw new Error('a remote provider embeds');
  return provider.embed('e5', texts, asked, signal);
}

const base64 = (...numbers: number[]) =>
  Buffer.from(new Float32Array(numbers).buffer).toString('base64');
const data = (...vectors: unknown[]) => ({
  data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  usage: { prompt_tokens: 4, total_tokens: 4 },
});

test('vectors are read as numbers and as base64, in the order of their index', async () => {
  const floats = await embed((exchange) => exchange.reply(200, data([1, 0.5], [2, -3])));
  assert.equal(floats.vectors, [
    [1, 0.5],
    [2, -3],
  ]);
  assert.is(floats.input_tokens, 4);
  const reversed = data(base64(1, 0.5), base64(2, -3));
  reversed.data.reverse();
  const packed = await embed((exchange) => exchange.reply(200, reversed));
  assert.equal(packed.vectors, floats.vectors);
});

test('the request has the model, the texts, the dimensions and the key', async () => {
  const { received } = await embed(
    (exchange) => exchange.reply(200, data([1], [2])),
    ['a', 'b'],
    { config: { key: 'env:TEST_KEY' } },
    64,
  );
  const [request] = received;
  assert.is(`${request?.method} ${request?.path}`, 'POST /v1/embeddings');
  assert.is(request?.headers.authorization, `Bearer ${SECRET_KEY}`);
  assert.equal(JSON.parse(request?.body ?? ''), {
    model: 'e5',
    input: ['a', 'b'],
    encoding_format: 'base64',
    dimensions: 64,
  });
});

test('many texts go in batches over one connection, and their vectors keep the order', async () => {
  const texts = Array.from({ length: 300 }, (_, index) => String(index));
  const { vectors, input_tokens, received } = await embed((exchange) => {
    const { input } = exchange.json as { input: string[] };
    exchange.reply(200, data(...input.map((text) => [Number(text)])));
  }, texts);
  assert.equal(
    vectors?.map(([first]) => first),
    texts.map(Number),
  );
  assert.is(input_tokens, 12);
  assert.is(received.length, 3);
});

test('an answer without a vector for each text is a failure, and never a shorter list', async () => {
  for (const answer of [
    data([1]),
    data([1], [2], [3]),
    data([1], 'abc'),
    data([1], [null]),
    data([1], []),
    {
      data: [
        { index: 0, embedding: [1] },
        { index: 0, embedding: [2] },
      ],
    },
    {
      data: [
        { index: -1, embedding: [1] },
        { index: 1, embedding: [2] },
      ],
    },
    { nothing: true },
    [],
  ]) {
    const { failure } = await embed((exchange) => exchange.reply(200, answer));
    assert.is(failure?.code, 'provider_failed', JSON.stringify(answer));
  }
});

test('refusals are the same errors as for a run, and repeat neither key nor text', async () => {
  const text = 'The password of the house is swordfish-1234.';
  const codes: string[] = [];
  for (const [status, error] of [
    [404, { code: 'model_not_found', message: text }],
    [401, { message: SECRET_KEY }],
    [429, { message: 'slow down' }],
    [500, { message: text }],
    [200, { message: text }],
  ] as const) {
    const { failure } = await embed((exchange) => exchange.reply(status, { error }), [text], {
      config: { key: 'env:TEST_KEY' },
    });
    codes.push(failure?.code ?? 'none');
    assert.not.match(failure?.message ?? '', /swordfish/);
    assert.not.match(failure?.message ?? '', SECRET_KEY.slice(4));
  }
  assert.equal(codes, [
    'model_unknown',
    'provider_unauthorised',
    'provider_busy',
    'provider_failed',
    'provider_failed',
  ]);
});

test('a response beyond the bound is a failure', async () => {
  const { failure } = await embed(
    (exchange) => exchange.reply(200, data(Array.from({ length: 2000 }, () => 1.5))),
    ['a'],
    { limits: { provider_vectors_bytes: 1024 } },
  );
  assert.is(failure?.code, 'stream_oversized');
  assert.match(failure?.message ?? '', '1024 bytes');
});

test('an abort closes the connection', async () => {
  const gone = new AbortController();
  let closed: Promise<void> | undefined;
  const { failure } = await embed(
    (exchange) => {
      closed = exchange.closed;
      gone.abort();
    },
    ['a'],
    { signal: gone.signal },
  );
  assert.ok(failure);
  assert.ok(closed);
  await closed;
});

test.run();
