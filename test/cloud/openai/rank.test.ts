import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { type RemoteOptions, remote, SECRET_KEY } from '../../helpers/remote.ts';
import { type Scenario, Upstream } from '../../helpers/upstream.ts';

async function rank(
  scenario: Scenario,
  {
    documents = ['a', 'b'],
    signal = new AbortController().signal,
    ...options
  }: RemoteOptions & { documents?: string[]; signal?: AbortSignal } = {},
) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, options);
  try {
    const asked = provider.rank?.('rr', 'why?', documents, signal) ?? Promise.reject(new Error());
    const result = await asked.then(
      (ranking) => ({ ...ranking, failure: null }),
      (failure: SvcError) => ({ scores: null, input_tokens: null, failure }),
    );
    return { ...result, received: upstream.received };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

test('the request has the shared form, and scores are read in the forms of known servers', async () => {
  const jina = {
    results: [
      { index: 1, relevance_score: 0.75, document: { text: 'b' } },
      { index: 0, relevance_score: -2 },
    ],
    usage: { total_tokens: 15 },
  };
  const { scores, input_tokens, received } = await rank((exchange) => exchange.reply(200, jina));
  assert.equal([scores, input_tokens], [[-2, 0.75], 15]);
  const [{ path, body } = { path: '', body: '' }] = received;
  assert.is(path, '/v1/rerank');
  assert.equal(JSON.parse(body), { model: 'rr', query: 'why?', documents: ['a', 'b'] });
  const { results } = jina;
  const llama = { results, usage: { prompt_tokens: 9, total_tokens: 9 } };
  assert.is((await rank((exchange) => exchange.reply(200, llama))).input_tokens, 9);
  const cohere = { results, meta: { tokens: { input_tokens: 8 }, billed_units: {} } };
  assert.is((await rank((exchange) => exchange.reply(200, cohere))).input_tokens, 8);
  const voyage = await rank((exchange) => exchange.reply(200, { object: 'list', data: results }));
  assert.equal([voyage.scores, voyage.input_tokens], [[-2, 0.75], null]);
});

test('a server without the path is refused by name, and other refusals keep their meaning', async () => {
  const codes = async (status: number, body: object) => {
    const config = { key: 'env:TEST_KEY' };
    const { failure } = await rank((exchange) => exchange.reply(status, body), { config });
    return [failure?.code, failure?.message];
  };
  const [code, message] = await codes(404, { detail: 'Not Found' });
  assert.is(code, 'capability_missing');
  assert.match(message ?? '', /has no path \/rerank/);
  const unknown = { error: { message: 'The model `rr` does not exist', code: 'model_not_found' } };
  assert.is((await codes(404, unknown))[0], 'model_unknown');
  const [refused, said] = await codes(401, { error: { message: `bad ${SECRET_KEY}` } });
  assert.is(refused, 'provider_unauthorised');
  assert.not.match(said ?? '', new RegExp(SECRET_KEY));
});

test('scores that do not belong to the documents are no answer', async () => {
  const one = { index: 0, relevance_score: 1 };
  for (const results of [
    undefined,
    [one],
    [one, one],
    [one, { index: 2, relevance_score: 1 }],
    [one, { index: 1, relevance_score: '1' }],
    [one, { index: 1, relevance_score: null }],
    [one, { index: -1, relevance_score: 1 }],
  ]) {
    const { failure } = await rank((exchange) => exchange.reply(200, { results }));
    assert.is(failure?.code, 'provider_failed', JSON.stringify(results));
  }
});

test('an abort closes the connection', async () => {
  const gone = new AbortController();
  let closed: Promise<void> | undefined;
  const { failure } = await rank(
    (exchange) => {
      closed = exchange.closed;
      gone.abort();
    },
    { signal: gone.signal },
  );
  assert.ok(failure);
  await closed;
});

test.run();
