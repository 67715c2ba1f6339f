import { status } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGrpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { createMethods } from '../../src/transport/control/methods.ts';
import { runtimeClient } from '../grpc/runtime-client.ts';
import { silent } from '../helpers/kernel.ts';
import { gate, ScriptedProvider } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { TOKEN } from './http/boot.ts';
import { bootReal } from './http/real.ts';

/** Scores a document by its length. */
class Ranker extends ScriptedProvider {
  aborted = false;
  hold: Promise<void> | null = null;

  async rank(_: string, __: string, documents: readonly string[], signal: AbortSignal) {
    const aborted = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    if (this.hold !== null) await Promise.race([this.hold, aborted]);
    this.aborted = signal.aborted;
    signal.throwIfAborted();
    return { scores: documents.map(({ length }) => length / 8), input_tokens: 6 };
  }
}

async function boot() {
  const ranker = new Ranker('lan', []);
  const real = await bootReal({ remote: { lan: { port: ranker, kind: 'local' } } });
  return { real, ranker };
}

const asked = { model: 'lan/rr', query: 'why?', documents: ['a', 'bcd', { text: 'ef' }] };
const results = [
  { index: 1, relevance_score: 0.375 },
  { index: 2, relevance_score: 0.25 },
  { index: 0, relevance_score: 0.125 },
];
const usage = { prompt_tokens: 6, total_tokens: 6 };
const answer = { object: 'list', model: 'lan/rr', results, usage };

test('all paths of HTTP and the local socket have one answer', async () => {
  const { real } = await boot();
  for (const path of ['/v1/rerank', '/rerank', '/v2/rerank']) {
    const { status: code, json } = await real.get(path, { method: 'POST', body: asked });
    assert.equal([code, json], [200, answer], path);
  }
  const { runtime, config } = real;
  const call = createMethods({ runtime, limits: config.limits, home: null as never });
  const reply = { signal: new AbortController().signal } as never;
  assert.equal(await call('rerank', asked, reply), answer);
  const best = { ...asked, top_n: 1, return_documents: true };
  const { json } = await real.get('/v1/rerank', { method: 'POST', body: best });
  assert.equal(json.results, [{ ...results[0], document: { text: 'bcd' } }]);
  await real.close();
});

test('what third-party programs also send is left out by name, and mistakes are refused by theirs', async () => {
  const { real } = await boot();
  const cohere = { ...asked, max_tokens_per_doc: 4096 };
  const { status: code, headers } = await real.get('/v2/rerank', { method: 'POST', body: cohere });
  assert.equal([code, headers['x-svc-ignored']], [200, 'max_tokens_per_doc']);
  for (const [change, param] of [
    [{ query: '' }, 'query'],
    [{ query: undefined }, 'query'],
    [{ documents: [] }, 'documents'],
    [{ documents: ['a', ''] }, 'documents.1'],
    [{ documents: ['a', 5] }, 'documents.1'],
    [{ documents: [{ text: 5 }] }, 'documents.0.text'],
    [{ top_n: 0 }, 'top_n'],
    [{ model: 'local/svc-mini' }, 'model'],
  ] as const) {
    const { status: refused, json } = await real.get('/v1/rerank', {
      method: 'POST',
      body: { ...asked, ...change },
    });
    const { error } = json as { error: { param: string } };
    assert.equal([refused, error.param], [400, param], JSON.stringify(change));
  }
  await real.close();
});

test('gRPC has it, and a call or a request that is given up stops the work', async () => {
  const { real, ranker } = await boot();
  const grpc = createGrpc({
    runtime: real.runtime,
    limits: real.config.limits,
    log: silent,
    unsent: real.unsent,
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
  });
  const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
  try {
    const request = { ...asked, documents: ['a', 'bcd', 'ef'], return_documents: true };
    const { object: _, ...whole } = answer;
    const { _usage: __, ...message } = await client.ask('Rerank', request);
    const texts = ['bcd', 'ef', 'a'].map((text, at) => ({ ...results[at], document: { text } }));
    assert.equal(message, { ...whole, results: texts });
    assert.is((await client.refusal('Rerank', { query: 'a' })).code, status.INVALID_ARGUMENT);
    ranker.hold = gate().opened;
    const gone = new AbortController();
    const given = fetch(`${real.url}/rerank`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify(asked),
      signal: gone.signal,
    }).catch(() => null);
    await waitFor('it is asked', () => real.runtime.report().embeddings.active === 1);
    gone.abort();
    await given;
    await waitFor('the work is stopped', () => ranker.aborted);
    await waitFor('its place is free', () => real.runtime.report().embeddings.active === 0);
  } finally {
    client.close();
    await grpc.close();
    await real.close();
  }
});

test.run();
