import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  getLlama,
  type LlamaContext,
  type SequenceEvaluateOptions,
  type Token,
} from 'node-llama-cpp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { Decoder, newMember } from '../../../src/providers/local/engine/decode/decoder.ts';
import { nativeContext } from '../../../src/providers/local/engine/decode/native.ts';
import {
  type Sampling,
  type Step,
  seedAt,
  TokenSampler,
} from '../../../src/providers/local/engine/decode/sampler.ts';
import { scoreTokens } from '../../../src/providers/local/engine/decode/scores.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';

/** The engine calls llama.cpp by parts of the library that are not documented. */

const folder = mkdtempSync(join(tmpdir(), 'svc-native-'));
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, progressLogs: false });
const model = await llama.loadModel({ modelPath: makeGguf(join(folder, 'model.gguf')) });
const prompt = model.tokenize('What does the library answer to this?');
const TOKENS = 70;

test.after(async () => {
  await llama.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const usual: Sampling = { temperature: 0.9, seed: 5, judged: 0, explained: null };
const penalties = { presence_penalty: 0.4, frequency_penalty: 0.3, repeat_penalty: 1.2 };

/** Each with what the library calls it. */
const cases: [name: string, sampling: Sampling, options: SequenceEvaluateOptions][] = [
  ['the most likely tokens', { ...usual, temperature: 0 }, { temperature: 0 }],
  ['sampled tokens', usual, { temperature: 0.9 }],
  [
    'sampled tokens of few',
    { ...usual, temperature: 2, options: { top_k: 3, top_p: 0.8, min_p: 0.05 } },
    { temperature: 2, topK: 3, topP: 0.8, minP: 0.05 },
  ],
  ['tokens with penalties', { ...usual, options: penalties }, { temperature: 0.9 }],
  [
    'the most likely tokens with penalties',
    { ...usual, temperature: 0, options: penalties },
    { temperature: 0 },
  ],
  ['judged tokens', { ...usual, judged: 20 }, { temperature: 0.9 }],
];

for (const [name, sampling, options] of cases) {
  test(`${name} are those of the public way of the library`, async () => {
    const ours = await withContext((context) => decoded(context, sampling));
    const theirs = await withContext((context) => evaluated(context, sampling, options));
    assert.is(ours.length, TOKENS);
    assert.equal(
      ours.map(({ token }) => token),
      theirs.map(({ token }) => token),
    );
    assert.equal(ours, theirs);
  });
}

/** By the public way of the library, at the temperature that changes nothing. */
async function probabilitiesAfter(tokens: readonly Token[]): Promise<ReadonlyMap<Token, number>> {
  return withContext(async (context) => {
    const all = { temperature: 1, topK: 0, topP: 1, minP: 0 };
    const evaluation = context
      .getSequence()
      .evaluateWithMetadata([...tokens], { probabilities: true }, all);
    for await (const { probabilities } of evaluation) return probabilities;
    throw new Error('no token');
  });
}

const near = (one: number, other: number) => Math.abs(one - other) < 0.001;

test('scores are those of the model, whatever the sampling', async () => {
  const expected = await probabilitiesAfter(prompt);
  const likeliest = [...expected].slice(0, 5);
  for (const [, sampling] of cases) {
    const steps = await withContext((context) => decoded(context, { ...sampling, explained: 5 }));
    const { token, score } = steps[0] as Step;
    assert.ok(near(score?.logprob ?? 1, Math.log(expected.get(token) ?? 0)));
    assert.equal(
      score?.top.map((one) => one.token),
      likeliest.map(([one]) => one),
    );
    for (const [at, [, probability]] of likeliest.entries())
      assert.ok(near(score?.top[at]?.logprob ?? 1, Math.log(probability)));
  }
});

test('each token of a text has its score, in parts of any length', async () => {
  const text = Array.from({ length: 5 }, () => prompt).flat();
  assert.ok(text.length > 2 * 32);
  const { signal } = new AbortController();
  const scores = await withContext((context) =>
    scoreTokens(
      { model, decoder: new Decoder(nativeContext(context), 1) },
      { place: 0, tokens: [] },
      text,
      { top: 2, signal },
    ),
  );
  assert.is(scores.length, text.length);
  for (const at of [0, 30, 31, 32, text.length - 1]) {
    const expected = await probabilitiesAfter(text.slice(0, at + 1));
    const next = text[at + 1];
    const { logprob = null, top = [] } = scores[at] ?? {};
    if (next === undefined) assert.is(logprob, null);
    else assert.ok(near(logprob ?? 1, Math.log(expected.get(next) ?? 0)), `after token ${at}`);
    assert.equal(
      top.map(({ token }) => token),
      [...expected.keys()].slice(0, 2),
    );
  }
});

test('a library of another form is refused, with what it lacks', async () => {
  const methods = { initBatch() {}, addToBatch() {}, sampleToken() {}, setThreads() {} };
  const other = { _ctx: methods, model: { llama: {} } };
  try {
    nativeContext(other as unknown as LlamaContext);
    assert.unreachable();
  } catch (thrown) {
    assert.instance(thrown, SvcError);
    const { code, cause } = thrown as SvcError;
    assert.is(code, 'engine_missing');
    assert.match(String(cause), 'no decodeBatch, removeTokenCellsFromSequence, disposeSequence, ');
  }
});

async function withContext<T>(work: (context: LlamaContext) => Promise<T>): Promise<T> {
  const context = await model.createContext({ contextSize: 256, sequences: 1, threads: 1 });
  try {
    return await work(context);
  } finally {
    await context.dispose();
  }
}

async function decoded(context: LlamaContext, sampling: Sampling): Promise<Step[]> {
  const decoder = new Decoder(nativeContext(context), 1);
  const sampler = new TokenSampler(model, sampling);
  const [member, sequence] = [newMember({ exact: true, batched: false }), { place: 0, tokens: [] }];
  const steps: Step[] = [];
  let next: readonly Token[] = prompt;
  while (steps.length < TOKENS) {
    const said = steps.map(({ token }) => token);
    const step = await decoder.compute(member, sequence, next, sampler.after(said));
    steps.push(step);
    next = [step.token];
  }
  sampler.dispose();
  return steps;
}

async function evaluated(
  context: LlamaContext,
  { seed, options: { repeat_penalty, presence_penalty, frequency_penalty } = {}, judged }: Sampling,
  options: SequenceEvaluateOptions,
): Promise<Step[]> {
  const sequence = context.getSequence();
  const steps: Step[] = [];
  let next = prompt;
  while (steps.length < TOKENS) {
    const wanted = { confidence: steps.length < judged };
    const evaluation = sequence.evaluateWithMetadata(next, wanted, {
      ...options,
      seed: seedAt(seed, steps.length),
      yieldEogToken: true,
      ...(repeat_penalty === undefined
        ? {}
        : {
            repeatPenalty: {
              punishTokens: steps.map(({ token }) => token),
              penalty: repeat_penalty,
              presencePenalty: presence_penalty ?? 0,
              frequencyPenalty: frequency_penalty ?? 0,
            },
          }),
    });
    for await (const { token, confidence } of evaluation as AsyncIterable<{
      token: Token;
      confidence?: number;
    }>) {
      steps.push({ token, probability: confidence ?? null, score: null });
      next = [token];
      break;
    }
  }
  return steps;
}

test.run();
