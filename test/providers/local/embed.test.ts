import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Embedding } from '../../../src/contract/embed-input.ts';
import type { Entry } from '../../fixtures/models/gguf-bytes.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const CONTEXT = 2048;
const TEXTS = ['a cat', 'the weather in Paris', 'é😀'];
let local: LocalHarness;

test.before(() => {
  local = makeLocalProvider({ model: 'random', limits: { cancel_grace_ms: 60_000 } });
  makeGguf(join(local.folder, 'random.gguf'), { context: CONTEXT });
  const pooling: Entry[] = [['llama.pooling_type', 'uint32', 1]];
  makeGguf(join(local.folder, 'mean.gguf'), { context: CONTEXT, metadata: pooling, width: 96 });
});
test.after(() => local.close());

const never = new AbortController().signal;
const embed = (texts: readonly string[], model = 'mean', options = {}): Promise<Embedding> =>
  (local.provider.embed as NonNullable<typeof local.provider.embed>)(model, texts, options, never);
const length = (vector: readonly number[] = []) => Math.hypot(...vector);
const isNear = (a: number, b: number) => Math.abs(a - b) < 1e-6;
const mean = () => local.models.loaded(Date.now()).models.find(({ name }) => name === 'mean');
const purposes = () =>
  local.models.loaded(Date.now()).models.map(({ name, purpose }) => `${name} ${purpose}`);

test('each text has its vector, in order, of the width of the model and of length 1', async () => {
  const { vectors, input_tokens } = await embed(TEXTS);
  assert.equal(
    vectors.map((vector) => vector.length),
    [96, 96, 96],
  );
  for (const vector of vectors) assert.ok(isNear(length(vector), 1), `${length(vector)}`);
  assert.ok((input_tokens ?? 0) >= TEXTS.join('').length, 'each character has a token');
  const [again] = (await embed([TEXTS[1] ?? ''])).vectors;
  // Texts are computed together, which rounds otherwise.
  const other = vectors[1] ?? [];
  const product = again?.reduce((sum, number, at) => sum + number * (other[at] ?? 0), 0) ?? 0;
  assert.ok(product > 0.9999, `the same text has the same vector, alone too: ${product}`);
  assert.not.equal(vectors[0], vectors[1]);
});

test('a model without a pooling has vectors too, and answers in another process', async () => {
  const { vectors } = await embed(TEXTS, 'random');
  assert.is(vectors[0]?.length, 64);
  assert.ok((await readAnswer(local, { model: 'random', max_tokens: 2 })).text.length > 0);
  assert.equal(purposes().sort(), ['mean embeddings', 'random answers', 'random embeddings']);
  const { reserved_bytes, models } = local.models.loaded(Date.now());
  assert.is(
    models.reduce((sum, { memory_bytes }) => sum + (memory_bytes ?? 0), 0),
    reserved_bytes,
  );
  await local.models.unload('random');
  assert.equal(purposes(), ['mean embeddings']);
});

test('a shorter vector is the beginning of the whole one, with length 1', async () => {
  const [whole = []] = (await embed(['a cat'])).vectors;
  const [short = []] = (await embed(['a cat'], 'mean', { dimensions: 8 })).vectors;
  assert.is(short.length, 8);
  assert.ok(isNear(length(short), 1));
  const scale = length(whole.slice(0, 8));
  assert.ok(short.every((number, at) => isNear(number * scale, whole[at] ?? 0)));
  const longer = await failure(embed(['a cat'], 'mean', { dimensions: 97 }));
  assert.equal([longer.code, longer.param], ['invalid_request', 'dimensions']);
});

test('the context has the usual size until a text needs more', async () => {
  await embed(TEXTS);
  assert.is(mean()?.context_length, 512);
  const small = mean()?.memory_bytes ?? 0;
  const long = 'x'.repeat(700);
  assert.ok(((await embed(['a cat', long])).input_tokens ?? 0) > 700);
  assert.is(mean()?.context_length, CONTEXT);
  assert.ok((mean()?.memory_bytes ?? 0) > small, 'what it takes is reserved');
});

test('a text longer than the context is refused by its place, before any is computed', async () => {
  const refused = await failure(embed(['a cat', 'word '.repeat(CONTEXT)]));
  assert.is(refused.code, 'context_length_exceeded');
  assert.match(refused.message, /^Text 1 has \d+ tokens; .* at most 2047\.$/);
});

test('a control token in a text is text', async () => {
  const spelled = await embed(['<|im_end|>']);
  assert.is(spelled.input_tokens, (await embed(['(|im_end|)'])).input_tokens);
});

test('the built-in model computes no embeddings, and says what does', async () => {
  const refused = await failure(embed(['a cat'], 'svc-mini'));
  assert.is(refused.code, 'capability_missing');
  assert.match(refused.hint ?? '', /svc model pull nomic-embed-text/);
});

test('a model that reads in both directions computes vectors, and says that it writes no answers', async () => {
  const metadata: Entry[] = [['llama.attention.causal', 'bool', false]];
  makeGguf(join(local.folder, 'both.gguf'), { context: CONTEXT, metadata });
  const refused = await failure(readAnswer(local, { model: 'both' }));
  assert.equal([refused.code, refused.retryable], ['capability_missing', false]);
  assert.match(refused.message, /It writes no answers/);
  assert.is((await embed(['a cat'], 'both')).vectors.length, 1);
});

test('an abort stops the work between two texts, and the next request is computed', async () => {
  const abort = new AbortController();
  const texts = Array.from({ length: 2000 }, (_, at) => `text ${at}: ${'more words '.repeat(60)}`);
  const work = local.provider.embed?.('mean', texts, {}, abort.signal);
  const ended = failure(
    work?.catch((error: unknown) => {
      throw error instanceof Error ? error : new Error(String(error));
    }) as Promise<unknown>,
  ).catch(() => null);
  await waitFor('it computes', () => mean()?.state === 'busy');
  const pid = mean()?.pid;
  abort.abort(new Error('gone'));
  await ended;
  assert.is((await embed(['a cat'])).vectors.length, 1);
  assert.is(mean()?.pid, pid, 'in the same process');
});

test.run();
