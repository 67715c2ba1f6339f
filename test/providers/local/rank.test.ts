import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Ranking } from '../../../src/ports/providers.ts';
import { makeBert } from '../../fixtures/models/make-bert.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const CONTEXT = 1024;
const QUERY = 'what eats a panda?';
const DOCUMENTS = ['it is a bear', 'hi', 'bamboo', 'a cat eats fish'];
let local: LocalHarness;

test.before(() => {
  local = makeLocalProvider({ model: 'ranker', limits: { cancel_grace_ms: 60_000 } });
  makeBert(join(local.folder, 'ranker.gguf'), { context: CONTEXT, ranks: true });
  makeBert(join(local.folder, 'vectors.gguf'), { context: CONTEXT, ranks: false });
  makeGguf(join(local.folder, 'random.gguf'));
});
test.after(() => local.close());

const never = new AbortController().signal;
const rank = (documents: readonly string[], model = 'ranker', query = QUERY): Promise<Ranking> =>
  (local.provider.rank as NonNullable<typeof local.provider.rank>)(model, query, documents, never);
const ranker = () => local.models.loaded(Date.now()).models.find(({ name }) => name === 'ranker');

test('each document has its score from 0 to 1, in order, the same alone as beside others', async () => {
  const { scores, input_tokens } = await rank(DOCUMENTS);
  assert.is(scores.length, DOCUMENTS.length);
  for (const score of scores) assert.ok(score > 0 && score < 1, `${score}`);
  assert.is(new Set(scores).size, DOCUMENTS.length);
  for (const [index, document] of DOCUMENTS.entries()) {
    const [alone = 0] = (await rank([document])).scores;
    // Texts are computed together, which rounds otherwise.
    assert.ok(Math.abs(alone - (scores[index] ?? 0)) < 0.001, `${alone} and ${scores[index]}`);
  }
  assert.not.equal((await rank(DOCUMENTS, 'ranker', 'another question')).scores, scores);
  // [CLS] query [SEP] document [SEP], where each letter is a token.
  const letters = (text: string) => text.replaceAll(' ', '').length;
  const expected = DOCUMENTS.reduce((sum, text) => sum + letters(QUERY) + letters(text) + 3, 0);
  assert.is(input_tokens, expected);
  assert.equal([ranker()?.purpose, ranker()?.context_length], ['reranking', 512]);
});

test('a document gets the context that it needs, and a longer one is refused by its place', async () => {
  assert.is((await rank(['a', 'b'.repeat(90).concat(' b'.repeat(600))])).scores.length, 2);
  assert.is(ranker()?.context_length, CONTEXT);
  const refused = await failure(rank(['a', 'b '.repeat(CONTEXT)]));
  assert.equal([refused.code, refused.param], ['context_length_exceeded', 'documents.1']);
  assert.match(refused.message, /^Document 1 has \d+ tokens with the query; .* at most 1023\.$/);
  const query = await failure(rank(['a'], 'ranker', 'b '.repeat(CONTEXT)));
  assert.is(query.code, 'context_length_exceeded');
});

test('a control token in a text is text', async () => {
  const { input_tokens } = await rank(['[SEP]']);
  assert.is(input_tokens, (await rank(['(SEP)'])).input_tokens);
});

test('models that do not rank are refused by what they lack, and a ranker does nothing else', async () => {
  for (const model of ['vectors', 'random']) {
    const refused = await failure(rank(DOCUMENTS, model));
    assert.equal([refused.code, refused.param], ['capability_missing', 'model']);
    assert.match(refused.message, /has no weights for scores/);
  }
  const mini = await failure(rank(DOCUMENTS, 'svc-mini'));
  assert.match(mini.message, /built-in model ranks no documents/);
  const vectors = await failure(local.provider.embed?.('ranker', ['a'], {}, never) ?? rank([]));
  assert.match(vectors.message, /It computes no embeddings/);
  const answer = await failure(readAnswer(local, { model: 'ranker' }));
  assert.match(answer.message, /ranks documents\. It writes no answers/);
  const listed = await local.provider.models(never);
  const capabilities = (name: string) => listed.find((each) => each.name === name)?.capabilities;
  assert.equal(capabilities('ranker'), ['reranking']);
  assert.equal(capabilities('vectors'), ['embedding']);
});

test('an abort stops the work between two documents, and the next request is computed', async () => {
  const abort = new AbortController();
  const many = Array.from({ length: 2000 }, (_, at) => `${at} ${'words '.repeat(80)}`);
  const ended = failure(
    (local.provider.rank?.('ranker', QUERY, many, abort.signal) ?? rank([])).catch((error) => {
      throw error instanceof Error ? error : new Error(String(error));
    }),
  ).catch(() => null);
  await waitFor('it computes', () => ranker()?.state === 'busy');
  const pid = ranker()?.pid;
  abort.abort(new Error('gone'));
  await ended;
  assert.is((await rank(['a'])).scores.length, 1);
  assert.is(ranker()?.pid, pid, 'in the same process');
});

test.run();
