import { createServer } from 'node:net';
import { Readable } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Settings } from '../../../src/config/settings.ts';
import { parseEmbedInput } from '../../../src/contract/embed-input.ts';
import { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import type { Limits } from '../../../src/limits.ts';
import type { PassedRequest } from '../../../src/ports/providers.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const never = new AbortController().signal;
const ASKER = { client: 'the indexer' };

class Embedder extends ScriptedProvider {
  readonly models_asked: string[] = [];
  input_tokens: number | null = 7;
  answer = (texts: readonly string[]): Promise<number[][]> | number[][] =>
    texts.map((text) => [text.length, 1]);

  async embed(model: string, texts: readonly string[], _: object, signal: AbortSignal) {
    this.models_asked.push(model);
    const vectors = await this.answer(texts);
    signal.throwIfAborted();
    return { vectors, input_tokens: this.input_tokens };
  }
}

/** Scores a document by its length. */
class Ranker extends Embedder {
  ranked: readonly unknown[] = [];
  scores = (documents: readonly string[]): number[] => documents.map(({ length }) => length);

  async rank(model: string, query: string, documents: readonly string[]) {
    this.ranked = [model, query, documents];
    return { scores: this.scores(documents), input_tokens: this.input_tokens };
  }
}

async function boot(
  limits: Partial<Limits> = {},
  settings: Partial<Settings> = {},
  more: { store?: EventStore; boot_id?: string } = {},
) {
  const embedder = new Embedder('lan', []);
  const cloud = new Ranker('openai', []);
  const harness = await bootRuntime({
    ...more,
    local: new ScriptedProvider('local', []),
    remote: { lan: { port: embedder, kind: 'local' }, openai: { port: cloud, kind: 'cloud' } },
    limits: { probe_failures: 100, ...limits },
    settings,
  });
  return { ...harness, embedder, cloud };
}

test('an embedding goes where a run of the same model would go, and a local one is not recorded', async () => {
  const { runtime, embedder, cloud, kernel } = await boot();
  const before = kernel.durableSeq;
  const record = await runtime.embeddings.embed(
    { texts: ['a', 'bcd'], model: 'lan/e5' },
    ASKER,
    never,
  );
  assert.equal(record, {
    vectors: [
      [1, 1],
      [3, 1],
    ],
    input_tokens: 7,
    provider: 'lan',
    model: 'e5',
  });
  assert.is(kernel.durableSeq, before);
  assert.equal(embedder.models_asked, ['e5']);
  assert.equal(cloud.models_asked, []);
  await runtime.embeddings.embed({ texts: ['a'], model: 'openai/big' }, ASKER, never);
  assert.equal(cloud.models_asked, ['big']);
  assert.equal(runtime.report().embeddings, { active: 0, answered: 2, failed: 0 });
});

test('the log says what goes to a cloud before it goes: its size and who asked, without the texts', async () => {
  const store = gatedStore(createMemoryStore());
  const { runtime, cloud, kernel } = await boot({}, {}, { store });
  const before = kernel.durableSeq;
  const asker = { client: 'the indexer', asked_by: 'cat' };
  store.hold();
  const answer = runtime.embeddings.embed(
    { texts: ['secret', 'größe'], model: 'openai/big' },
    asker,
    never,
  );
  await turns();
  assert.equal([store.appends.at(-1), kernel.durableSeq], [1, before]);
  assert.equal(cloud.models_asked, [], 'nothing leaves before the commit');
  store.release();
  await answer;
  await turns();
  const events = await store.readAll(before + 1, 10);
  const common = { ...asker, provider: 'openai', model: 'big', estimated_tokens: 4 };
  const [sent, counted] = events.slice(0, 2).map(({ type, stream, data: { request, ...data } }) => {
    assert.match(String(request), /^embedding_/);
    assert.match(stream, /^provider:openai:/);
    return { type, ...data };
  });
  assert.equal(sent, { ...common, type: 'provider.embedding_sent', texts: 2, bytes: 13 });
  assert.equal(counted, {
    ...common,
    type: 'provider.embedding_counted',
    sent_at: events[0]?.at,
    input_tokens: 7,
  });
  assert.equal(
    events.slice(2).map(({ type }) => type),
    ['provider.answered'],
  );
  assert.not.match(JSON.stringify(events), /secret|größe/);
});

test('nothing goes to a cloud while the disk takes no events, and a local provider still answers', async () => {
  const store = gatedStore(createMemoryStore());
  const { runtime, cloud, clock } = await boot({ commit_late_ms: 100 }, {}, { store });
  const ask = (model: string) =>
    codeOf(runtime.embeddings.embed({ texts: ['a'], model }, ASKER, never));
  store.hold();
  const waiting = ask('openai/big');
  await turns();
  clock.advance(100);
  assert.is(await waiting, 'store_stalled');
  assert.is(await ask('openai/big'), 'store_stalled');
  assert.is(await ask('lan/e5'), null);
  assert.equal(cloud.models_asked, []);
  store.release();
  await turns();
  assert.is(await ask('openai/big'), null);
});

test('embeddings of a cloud are in the usage, with the number of the provider where it says one', async () => {
  const prices = { 'openai/*': { input: 1_000_000, output: 0 } };
  const { runtime, cloud, store } = await boot({}, { prices });
  const ask = (texts: string[]) =>
    runtime.embeddings.embed({ texts, model: 'openai/big' }, ASKER, never);
  await ask(['a']);
  cloud.input_tokens = null;
  await ask(['four', 'bytes']);
  cloud.answer = () => Promise.reject(new SvcError('provider_rejected'));
  await codeOf(ask(['fails after it was sent']));
  await turns();
  const counts = { runs: 0, embeddings: 3, input_tokens: 7 + 3 + 6, estimated_embeddings: 2 };
  const check = async (of: typeof runtime) => {
    const { groups, total } = await of.usage({ by: 'client' });
    for (const { name, runs, embeddings, input_tokens, estimated_embeddings, cost } of [
      ...groups,
      total,
    ])
      assert.equal(
        { name, runs, embeddings, input_tokens, estimated_embeddings, cost },
        { ...counts, name: name === 'total' ? name : ASKER.client, cost: counts.input_tokens },
      );
    assert.is((await of.usage({})).budget.spent_tokens, counts.input_tokens);
  };
  await check(runtime);
  await check((await boot({}, { prices }, { store, boot_id: 'boot_2' })).runtime);
});

test('a provider that is gone or refuses requests meanwhile gets no texts', async () => {
  const store = gatedStore(createMemoryStore());
  const { runtime, providers, cloud } = await boot({}, {}, { store });
  const asked = codeOf(
    runtime.embeddings.embed({ texts: ['a'], model: 'openai/big' }, ASKER, never),
  );
  const fault = new SvcError('provider_unauthorised', 'openai refused the key.');
  providers.recordOutcome('openai', fault, { request: 'another request', model: 'big' });
  assert.is(await asked, 'provider_unauthorised');
  assert.equal(cloud.models_asked, []);
});

test('a provider that cannot embed, an unknown one, and a local one for a cloud request are refused', async () => {
  const { runtime } = await boot();
  const refusal = await runtime.embeddings
    .embed({ texts: ['a'] }, ASKER, never)
    .catch((error: unknown) => error as SvcError);
  assert.instance(refusal, SvcError);
  assert.is((refusal as SvcError).code, 'capability_missing');
  assert.match((refusal as SvcError).hint, 'the capability embedding');
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['a'], provider: 'none' }, ASKER, never)),
    'provider_unknown',
  );
  assert.is(
    await codeOf(
      runtime.embeddings.embed({ texts: ['a'], provider: 'lan', cloud: true }, ASKER, never),
    ),
    'usage',
  );
});

test('embeddings of a cloud count toward the budget of the day, and none goes there beyond it', async () => {
  const { runtime, cloud, embedder, clock } = await boot({}, { budget_tokens_per_day: 14 });
  const ask = (model: string) =>
    codeOf(runtime.embeddings.embed({ texts: ['a'], model }, ASKER, never));
  assert.is(await ask('lan/e5'), null);
  assert.is(await ask('openai/big'), null);
  await turns();
  assert.is((await runtime.usage({})).budget.spent_tokens, 7);
  assert.is(await ask('openai/big'), null);
  await turns();
  assert.is(await ask('openai/big'), 'budget_spent');
  assert.is(cloud.models_asked.length, 2);
  assert.is(await ask('lan/e5'), null);
  assert.is(embedder.models_asked.length, 2);
  clock.advance(86_400_000);
  assert.is(await ask('openai/big'), null);
  await turns();
  assert.is((await runtime.usage({})).budget.spent_tokens, 7);
});

test('a cloud model without a price gets no texts under a budget of money', async () => {
  const { runtime, cloud } = await boot({}, { budget_per_day: 1 });
  const refused = codeOf(
    runtime.embeddings.embed({ texts: ['a'], model: 'openai/big' }, ASKER, never),
  );
  assert.is(await refused, 'price_unknown');
  assert.is(cloud.models_asked.length, 0);
});

test('requests beyond the limit are refused as busy, and the place is free again after the answer', async () => {
  const { runtime, embedder } = await boot({ embeddings: 1 });
  const held = gate();
  embedder.answer = async (texts) => {
    await held.opened;
    return texts.map(() => [1]);
  };
  const first = runtime.embeddings.embed({ texts: ['a'], model: 'lan/e5' }, ASKER, never);
  assert.is(runtime.report().embeddings.active, 1);
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['b'], model: 'lan/e5' }, ASKER, never)),
    'busy',
  );
  held.open();
  assert.equal((await first).vectors, [[1]]);
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['b'], model: 'lan/e5' }, ASKER, never)),
    null,
  );
});

test('an abort ends a request with its reason and is no fault of the provider', async () => {
  const { runtime, embedder } = await boot();
  const gone = new AbortController();
  embedder.answer = (texts) => {
    gone.abort(new SvcError('daemon_stopping'));
    return texts.map(() => [1]);
  };
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['a'], model: 'lan/e5' }, ASKER, gone.signal)),
    'daemon_stopping',
  );
  assert.is(runtime.providers.list().find(({ id }) => id === 'lan')?.state, 'available');
});

test('vectors that do not fit the texts are no answer, and neither are too many numbers', async () => {
  const { runtime, embedder } = await boot({ embed_numbers: 4 });
  const ask = (vectors: number[][]) => {
    embedder.answer = () => vectors;
    return codeOf(runtime.embeddings.embed({ texts: ['a', 'b'], model: 'lan/e5' }, ASKER, never));
  };
  assert.is(await ask([[1, 2]]), 'provider_failed');
  assert.is(await ask([[1, 2], [1]]), 'provider_failed');
  assert.is(await ask([[], []]), 'provider_failed');
  assert.is(
    await ask([
      [1, 2, 3],
      [1, 2, 3],
    ]),
    'prompt_too_large',
  );
  assert.is(
    await ask([
      [1, 2],
      [1, 2],
    ]),
    null,
  );
  assert.equal(runtime.report().embeddings, { active: 0, answered: 1, failed: 4 });
});

test('a request that takes longer than its limit ends as timed_out', async () => {
  const { runtime, embedder } = await boot({ embed_ms: 5 });
  embedder.embed = (_model, _texts, _asked, signal) =>
    new Promise((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
    );
  // The timer of a signal keeps no process alive. A listener does.
  const listening = createServer().listen(0, '127.0.0.1');
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['a'], model: 'lan/e5' }, ASKER, never)),
    'timed_out',
  );
  listening.close();
});

test('a daemon that stops takes no request', async () => {
  const { runtime } = await boot();
  await runtime.lifecycle({ type: 'stop_requested' }, 'test');
  assert.is(
    await codeOf(runtime.embeddings.embed({ texts: ['a'], model: 'lan/e5' }, ASKER, never)),
    'daemon_stopping',
  );
});

test('a request that is passed on is in the usage and the log, without what it says', async () => {
  const { runtime, cloud, store, kernel } = await boot();
  const before = kernel.durableSeq;
  const passed: PassedRequest[] = [];
  const pass = async (request: PassedRequest) => {
    passed.push(request);
    await request.take({ content_type: 'text/plain', body: Readable.from([Buffer.from('hi')]) });
    return { input_tokens: 14 };
  };
  Object.assign(cloud, { pass });
  const taken: string[] = [];
  const ask = (model: string) =>
    runtime.embeddings.pass(
      {
        model,
        path: '/audio/transcriptions',
        purpose: 'transcription',
        texts: ['Zoë Secret'],
        bytes: 90_000,
        bodyFor: async (name) => ({ content_type: 'x/y', body: `for ${name}` }),
        take: async ({ body }) => {
          for await (const piece of body) taken.push(String(piece));
        },
      },
      ASKER,
      never,
    );
  await ask('openai/whisper');
  assert.equal(taken, ['hi']);
  assert.equal(
    passed.map(({ model, body, content_type }) => [model, body, content_type]),
    [['whisper', 'for whisper', 'x/y']],
  );
  await turns();
  const [sent] = await store.readAll(before + 1, 1);
  const { type, data } = sent as { type: string; data: Record<string, unknown> };
  assert.equal(
    [type, data.purpose, data.texts, data.bytes, data.estimated_tokens],
    ['provider.embedding_sent', 'transcription', 1, 90_000, 3],
  );
  assert.not.match(JSON.stringify(await store.readAll(before + 1, 9)), /Secret/);
  const { total } = await runtime.usage({ by: 'client' });
  assert.equal([total.embeddings, total.input_tokens], [1, 14]);
  assert.is(await codeOf(ask('lan/e5')), 'capability_missing');
  assert.equal(passed.length, 1);
});

test('documents are ranked, the best one first, and are in the usage and the log as embeddings are', async () => {
  const { runtime, cloud, store, kernel } = await boot();
  const before = kernel.durableSeq;
  const documents = ['four', 'a', { text: 'four' }, 'the longest'];
  const ask = (more = {}) =>
    runtime.embeddings.rerank(
      { query: 'größe?', documents, model: 'openai/big', ...more },
      ASKER,
      never,
    );
  assert.equal(await ask(), {
    object: 'list',
    model: 'openai/big',
    results: [
      { index: 3, relevance_score: 11 },
      { index: 0, relevance_score: 4 },
      { index: 2, relevance_score: 4 },
      { index: 1, relevance_score: 1 },
    ],
    usage: { prompt_tokens: 7, total_tokens: 7 },
  });
  assert.equal(cloud.ranked, ['big', 'größe?', ['four', 'a', 'four', 'the longest']]);
  await turns();
  const [sent] = await store.readAll(before + 1, 1);
  const { type, data } = sent as { type: string; data: Record<string, unknown> };
  assert.equal(
    [type, data.purpose, data.texts, data.bytes],
    ['provider.embedding_sent', 'reranking', 5, 28],
  );
  assert.not.match(JSON.stringify(await store.readAll(before + 1, 9)), /größe|longest/);
  const { total } = await runtime.usage({ by: 'client' });
  assert.equal([total.embeddings, total.input_tokens], [1, 7]);
  const best = await ask({ top_n: 2, return_documents: true });
  assert.equal(best.results, [
    { index: 3, relevance_score: 11, document: { text: 'the longest' } },
    { index: 0, relevance_score: 4, document: { text: 'four' } },
  ]);
  cloud.input_tokens = null;
  assert.equal('usage' in (await ask({ top_n: 9 })), false);
});

test('documents are bounded, and scores that do not fit them are no answer', async () => {
  const { runtime, cloud } = await boot({ embed_texts: 2, embed_text_bytes: 8 });
  const ask = (documents: string[], more = {}) =>
    runtime.embeddings
      .rerank({ query: 'a', documents, model: 'openai/big', ...more }, ASKER, never)
      .then(() => null)
      .catch(({ code, param }: SvcError) => `${code} ${param}`);
  assert.is(await ask(['a', 'b', 'c']), 'invalid_request documents');
  assert.is(await ask(['123456789']), 'prompt_too_large documents');
  assert.is(await ask(['a', 'a\0']), 'prompt_not_text documents.1');
  assert.is(await ask(['a'], { query: 'a\0' }), 'prompt_not_text query');
  assert.is(await ask(['a'], { model: 'lan/e5' }), 'capability_missing model');
  assert.equal(cloud.ranked, []);
  for (const scores of [[1], [1, 2, 3], [1, Number.NaN]]) {
    cloud.scores = () => scores;
    assert.is(await ask(['a', 'b']), 'provider_failed null');
  }
});

test('the input is checked: texts, their number and their bytes', () => {
  const limits = { embed_texts: 2, embed_text_bytes: 8 };
  const paramOf = (value: unknown) => {
    try {
      parseEmbedInput(value, limits);
      return null;
    } catch (error) {
      const { code, param } = error as SvcError;
      return `${code} ${param}`;
    }
  };
  assert.is(paramOf({ texts: ['a', 'b'] }), null);
  assert.is(paramOf({ texts: [] }), 'invalid_request texts');
  assert.is(paramOf({ texts: [''] }), 'invalid_request texts.0');
  assert.is(paramOf({ texts: [[1]] }), null, 'the id of a token');
  assert.is(paramOf({ texts: [[]] }), 'invalid_request texts.0');
  assert.is(paramOf({ texts: [['a']] }), 'invalid_request texts.0.0');
  assert.is(paramOf({ texts: [[1, 2, 3]] }), 'prompt_too_large texts', 'each counts as 4 bytes');
  assert.is(paramOf({ texts: ['a', 'b', 'c'] }), 'invalid_request texts');
  assert.is(paramOf({ texts: ['123456789'] }), 'prompt_too_large texts');
  assert.is(paramOf({ texts: ['a\0'] }), 'prompt_not_text texts.0');
  assert.is(paramOf({ texts: ['a'], dimensions: 0 }), 'invalid_request dimensions');
});

test.run();
