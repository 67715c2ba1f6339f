import OpenAI from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Embedding, EmbedText } from '../../../src/contract/embed-input.ts';
import type { Limits } from '../../../src/limits.ts';
import { gate, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal } from '../../transport/http/real.ts';

/** The vector of a text has its length and a fraction that 32 bits hold exactly. */
class Embedder extends ScriptedProvider {
  declare embedsTokens: true;
  texts: readonly EmbedText[] = [];
  embedded: { model: string; dimensions: number | undefined } | null = null;
  aborted = false;
  hold: Promise<void> | null = null;
  input_tokens: number | null = 5;
  length = 2;

  async embed(
    model: string,
    texts: readonly EmbedText[],
    { dimensions }: { dimensions?: number },
    signal: AbortSignal,
  ): Promise<Embedding> {
    this.embedded = { model, dimensions };
    this.texts = texts;
    const aborted = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    if (this.hold !== null) await Promise.race([this.hold, aborted]);
    this.aborted = signal.aborted;
    signal.throwIfAborted();
    const vectors = texts.map((text) =>
      Array.from({ length: dimensions ?? this.length }, (_, at) => (at === 0 ? text.length : 0.25)),
    );
    return { vectors, input_tokens: this.input_tokens };
  }
}

async function boot(limits: Partial<Limits> = {}) {
  const embedder = new Embedder('lan', []);
  const real = await bootReal({ remote: { lan: { port: embedder, kind: 'local' } }, limits });
  const client = new OpenAI({ baseURL: `${real.url}/v1`, apiKey: TOKEN, maxRetries: 0 });
  const post = (body: object) => real.get('/v1/embeddings', { method: 'POST', body });
  return { real, client, embedder, post };
}

const model = 'lan/e5';

test('the client of OpenAI gets the vectors of a text and of a list, as base64 and as numbers', async () => {
  const { real, client, embedder } = await boot();
  // Without a format the client asks for base64, and decodes it.
  const one = await client.embeddings.create({ model, input: 'abc' });
  assert.equal(one.data, [{ object: 'embedding', index: 0, embedding: [3, 0.25] }]);
  assert.equal(one.usage, { prompt_tokens: 5, total_tokens: 5 });
  assert.is(one.model, model);
  const two = await client.embeddings.create({
    model,
    input: ['a', 'bc'],
    encoding_format: 'float',
    dimensions: 3,
    user: 'u',
  });
  assert.equal(
    two.data.map(({ embedding }) => embedding),
    [
      [1, 0.25, 0.25],
      [2, 0.25, 0.25],
    ],
  );
  assert.equal(embedder.embedded, { model: 'e5', dimensions: 3 });
  assert.equal((await real.runtime.runs.list({})).runs, []);
  await real.close();
});

test('base64 has 32-bit floats, little endian; without a format there are numbers', async () => {
  const { real, post } = await boot();
  const packed = await post({ model, input: 'abc', encoding_format: 'base64' });
  const bytes = Buffer.from(packed.json.data[0].embedding, 'base64');
  assert.equal([bytes.readFloatLE(0), bytes.readFloatLE(4), bytes.length], [3, 0.25, 8]);
  assert.equal((await post({ model, input: 'abc' })).json.data[0].embedding, [3, 0.25]);
  await real.close();
});

test('a provider that does not count tokens leaves the usage out', async () => {
  const { real, embedder, post } = await boot();
  embedder.input_tokens = null;
  assert.is((await post({ model, input: 'abc' })).json.usage, undefined);
  await real.close();
});

test('bad input is refused with the name of the parameter', async () => {
  const { real, post } = await boot({ embed_texts: 2, embed_text_bytes: 10 });
  const refused = async (body: object) => {
    const { status, json } = await post(body);
    return `${status} ${json.error.code} ${json.error.param}`;
  };
  assert.is(await refused({ input: 'a' }), '400 invalid_request model');
  assert.is(await refused({ model }), '400 invalid_request input');
  assert.is(await refused({ model, input: '' }), '400 invalid_request input');
  assert.is(await refused({ model, input: [] }), '400 invalid_request input');
  assert.is(await refused({ model, input: [1, 2] }), '400 capability_missing input');
  assert.is(await refused({ model, input: [[1, 2]] }), '400 capability_missing input');
  assert.is(await refused({ model, input: [[1], 'a'] }), '400 invalid_request input.0');
  assert.is(await refused({ model, input: [1.5] }), '400 invalid_request input.0');
  assert.is(await refused({ model, input: [[1], []] }), '400 invalid_request input.1');
  assert.is(await refused({ model, input: [1, 2, 3] }), '413 prompt_too_large input');
  assert.is(await refused({ model, input: ['a', 'b', 'c'] }), '400 invalid_request input');
  assert.is(await refused({ model, input: 'x'.repeat(11) }), '413 prompt_too_large input');
  assert.is(await refused({ model, input: 'a', dimensions: 0 }), '400 invalid_request dimensions');
  assert.is(
    await refused({ model, input: 'a', encoding_format: 'hex' }),
    '400 invalid_request encoding_format',
  );
  assert.is(await refused({ model: 'local/svc-mini', input: 'a' }), '400 capability_missing model');
  await real.close();
});

test('a provider that takes ids of tokens gets them as they are, however many', async () => {
  const { real, client, embedder } = await boot({ request_values: 1000 });
  embedder.embedsTokens = true;
  const one = await client.embeddings.create({ model, input: [1, 2, 3] });
  assert.equal(one.data[0]?.embedding, [3, 0.25]);
  assert.equal(embedder.texts, [[1, 2, 3]]);
  const many = Array.from({ length: 5000 }, (_, id) => id);
  await client.embeddings.create({ model, input: [many, [100_257]] });
  assert.equal(embedder.texts, [many, [100_257]]);
  await real.close();
});

test('a client that leaves ends the work, and its place is free', async () => {
  const { real, client, embedder } = await boot({ embeddings: 1 });
  const held = gate();
  embedder.hold = held.opened;
  const gone = new AbortController();
  const asking = client.embeddings
    .create({ model, input: 'a' }, { signal: gone.signal })
    .catch(() => 'aborted');
  await waitFor('the request is in progress', () => real.runtime.report().embeddings.active === 1);
  const busy = await client.embeddings.create({ model, input: 'a' }).catch((error) => error.status);
  assert.is(busy, 429);
  gone.abort();
  assert.is(await asking, 'aborted');
  await waitFor('the work has stopped', () => real.runtime.report().embeddings.active === 0);
  assert.ok(embedder.aborted);
  held.open();
  await real.close();
});

test('a listener that closes ends the work with an error that says why', async () => {
  const { real, embedder, post } = await boot();
  embedder.hold = gate().opened;
  const asking = post({ model, input: 'a' });
  await waitFor('the request is in progress', () => real.runtime.report().embeddings.active === 1);
  const closing = real.close();
  const { status, json } = await asking;
  assert.is(`${status} ${json.error.code}`, '503 daemon_stopping');
  await closing;
});

test('many large vectors arrive whole, and no turn of the event loop makes all of them', async () => {
  const { real, client, embedder } = await boot();
  embedder.length = 1000;
  const input = Array.from({ length: 200 }, (_, index) => 'x'.repeat(index + 1));
  for (const encoding_format of ['float', 'base64'] as const) {
    const { data } = await client.embeddings.create({ model, input, encoding_format });
    assert.equal(
      data.map(({ index }) => index),
      input.map((_, index) => index),
    );
  }
  await real.close();
});

test.run();
