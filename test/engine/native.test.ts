import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { getLlama, type LlamaContext, type SequenceEvaluateOptions } from 'node-llama-cpp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Decoder, newMember } from '../../src/engine/decode/decoder.ts';
import { type Sampling, type Step, seedAt, TokenSampler } from '../../src/engine/decode/sampler.ts';
import { scoreTokens } from '../../src/engine/decode/scores.ts';
import { LAYOUTS } from '../../src/engine/native/abi.ts';
import { ADDON } from '../../src/engine/native/addon.ts';
import { checkLayouts, libraryFiles } from '../../src/engine/native/library.ts';
import type { Token } from '../../src/engine/native/model.ts';
import { StopFlags } from '../../src/engine/native/stop-flags.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { failure } from '../helpers/failure.ts';
import { openNative } from '../helpers/native-model.ts';

/** llama.cpp by its C interface, compared with another way to call the same libraries. */

const folder = mkdtempSync(join(tmpdir(), 'svc-native-'));
const path = makeGguf(join(folder, 'model.gguf'));
const model = await openNative(path);
const { c } = model.llama;
const other = await getLlama({ gpu: false, build: 'never', maxThreads: 1, progressLogs: false });
const otherModel = await other.loadModel({ modelPath: path });
const QUESTION = 'What does the library answer to this?';
const prompt = model.tokenize(QUESTION);
const otherPrompt = otherModel.tokenize(QUESTION);
const TOKENS = 70;

test.after(async () => {
  await other.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const usual: Sampling = { temperature: 0.9, seed: 5, judged: 0, explained: null };
const penalties = { presence_penalty: 0.4, frequency_penalty: 0.3, repeat_penalty: 1.2 };

/** Each with what the other library calls it. */
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
];

for (const [name, sampling, options] of cases) {
  test(`${name} are those of the other library`, async () => {
    const ours = (await decoded(sampling)).map(({ token }) => token);
    const context = await otherModel.createContext({ contextSize: 256, threads: 1 });
    const theirs = await evaluated(context, sampling, options);
    await context.dispose();
    assert.is(ours.length, TOKENS);
    assert.equal(ours, theirs);
  });
}

test('an answer that is cut off anywhere continues with the same tokens', async () => {
  const sampling = { ...usual, options: { ...penalties, dry_multiplier: 0.8 } };
  const whole = (await decoded(sampling)).map(({ token }) => token);
  for (const cut of [1, 33, TOKENS - 1])
    assert.equal(
      (await decoded(sampling, whole.slice(0, cut))).map(({ token }) => token),
      whole.slice(cut),
    );
});

/** By the other library, at the temperature that changes nothing. */
async function probabilitiesAfter(tokens: readonly Token[]): Promise<ReadonlyMap<Token, number>> {
  const context = await otherModel.createContext({ contextSize: 256, threads: 1 });
  try {
    // Without the end of an answer as a token, a draw of it would say nothing.
    const all = { temperature: 1, topK: 0, topP: 1, minP: 0, yieldEogToken: true };
    const evaluation = context
      .getSequence()
      .evaluateWithMetadata(tokens as typeof otherPrompt, { probabilities: true }, all);
    for await (const { probabilities } of evaluation) return probabilities;
    throw new Error('no token');
  } finally {
    await context.dispose();
  }
}

const near = (one: number, other: number) => Math.abs(one - other) < 0.001;

test('scores are those of the model, whatever the sampling', async () => {
  const expected = await probabilitiesAfter(prompt);
  const likeliest = [...expected].slice(0, 5);
  for (const [, sampling] of cases) {
    const [step] = await decoded({ ...sampling, explained: 5 }, [], 1);
    const { token = 0, score } = step ?? {};
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
  const context = model.createContext({ contextSize: 256, sequences: 1, batch: 64, threads: 1 });
  const scores = await scoreTokens(
    { decoder: new Decoder(context, 1, 64) },
    { place: 0, tokens: [] },
    text,
    { top: 2, signal },
  );
  context.dispose();
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

test('texts and tokens are those of the other library', () => {
  const texts = ['Hi  there', ' leading', '\n\nlines', 'é漢字🦙', '<|im_start|>user', 'a\0b', ''];
  for (const text of texts)
    for (const special of [false, true])
      for (const behind of [false, true]) {
        const theirs = otherModel.tokenize(text, special, ...(behind ? ([TRIMMED] as const) : []));
        const ours = model.tokenize(text, special, behind);
        assert.equal(ours, theirs as number[], JSON.stringify([text, special, behind]));
        for (let cut = 0; cut < ours.length; cut += 1)
          assert.is(
            model.detokenize(ours.slice(cut), special, ours.slice(0, cut)),
            otherModel.detokenize(theirs.slice(cut), special, theirs.slice(0, cut)),
          );
      }
});
const TRIMMED = 'trimLeadingSpace';

test('prompts that share a batch have the tokens of each alone, also after a cancel within it', async () => {
  const stops = new StopFlags();
  const options = { contextSize: 256, sequences: 3, batch: 64, threads: 1, stops };
  const prompts = ['One prompt.', 'A longer second prompt.', 'And a third.'].map((text) =>
    model.tokenize(text),
  );
  const answers = async (together: number, cancelAt: number) => {
    const context = model.createContext(options);
    const decoder = new Decoder(context, 1, together);
    let batches = 0;
    const decode = context.decodeBatch.bind(context);
    context.decodeBatch = () => {
      batches += 1;
      // Another thread raises a flag while this one computes.
      if (batches === cancelAt) stops.raise(9);
      decode();
    };
    const tokens = await Promise.all(
      prompts.map((tokens, place) => {
        const member = newMember({ exact: false, batched: false, flag: place });
        const sampler = new TokenSampler(model, { ...usual, temperature: 0 });
        const sequence = { place, tokens: [] as Token[] };
        return decoder
          .compute(member, sequence, tokens, sampler.after([]))
          .then(({ token }) => [token, member.batched, sequence.tokens.length])
          .finally(() => sampler.dispose());
      }),
    );
    context.dispose();
    return { tokens, batches };
  };
  const alone = await answers(0, 0);
  const found = alone.tokens.map(([token, , length]) => [token, true, length]);
  assert.equal(
    [alone.batches, alone.tokens.map(([, batched]) => batched)],
    [3, [false, false, false]],
  );
  // The first one is asked for while nothing is computed.
  const [first, ...others] = found;
  const shared = [[first?.[0], false, first?.[2]], ...others];
  assert.equal(await answers(64, 0), { tokens: shared, batches: 2 });
  assert.equal(await answers(64, 2), { tokens: shared, batches: 3 });
});

test('a batch whose flag is raised ends, and one of another run does not', async () => {
  const stops = new StopFlags();
  const context = model.createContext({
    contextSize: 256,
    sequences: 1,
    batch: 64,
    threads: 1,
    stops,
  });
  const abort = new AbortController();
  const member = newMember({ exact: true, batched: false, flag: 7, signal: abort.signal });
  const decoder = new Decoder(context, 1, 64);
  const sequence = { place: 0, tokens: [] as Token[] };
  stops.raise(8);
  await decoder.compute(member, sequence, prompt, null);
  assert.equal(sequence.tokens, prompt);
  // The message of the cancel comes after the flag.
  stops.raise(7);
  setImmediate(() => abort.abort(new Error('cancelled')));
  const ended = await failure(decoder.compute(member, sequence, [5, 6], null)).catch((e) => e);
  assert.match(String(ended), /cancelled/);
  assert.equal(sequence.tokens, prompt, 'what was computed before stays');
  stops.lower(7);
  assert.is(await decoder.keep(sequence, prompt.length), prompt.length);
  const again = newMember({ exact: true, batched: false, flag: 7 });
  await decoder.compute(again, sequence, [5, 6], null);
  context.dispose();
});

/** Two sequences in a context that begins with half of its memory. */
function openGrowing() {
  const context = model.createContext({ contextSize: 2048, sequences: 2, batch: 64, threads: 1 });
  const decoder = new Decoder(context, 1, 64);
  const sequences = [0, 1].map((place) => ({ place, tokens: [] as Token[] }));
  const member = newMember({ exact: true, batched: false });
  const compute = async (place: number, tokens: readonly Token[]) => {
    const sequence = sequences[place] as (typeof sequences)[number];
    let odds: number[] = [];
    for (let at = 0; at < tokens.length; at += 64)
      odds = await decoder.compute(member, sequence, tokens.slice(at, at + 64), (native, index) => [
        ...native.logits(index),
      ]);
    return odds;
  };
  return { context, sequences, compute };
}
const long = Array.from({ length: 1100 }, (_, at) => 5 + (at % 200));

test('a context grows with its longest sequence, and what all have computed stays', async () => {
  const growing = openGrowing();
  await growing.compute(0, long.slice(0, 1024));
  await growing.compute(1, prompt);
  assert.is(growing.context.room, 1024);
  await growing.compute(0, long.slice(1024));
  assert.is(growing.context.room, 2048);
  const grown = openGrowing();
  await grown.compute(0, long);
  await grown.compute(1, prompt);
  const next = long.slice(0, 5);
  for (const place of [0, 1])
    assert.equal(await growing.compute(place, next), await grown.compute(place, next));
  for (const { context } of [growing, grown]) context.dispose();
});

test('a context that cannot grow says so, and its sequences go on', async () => {
  const { context, sequences, compute } = openGrowing();
  await compute(0, long.slice(0, 1024));
  await compute(1, prompt);
  const library = c as { llama_init_from_model: unknown };
  const init = library.llama_init_from_model;
  library.llama_init_from_model = () => null;
  try {
    const refused = await failure(compute(0, long.slice(1024)));
    assert.is(refused.code, 'engine_failed');
    assert.match(refused.message, /too little memory for a longer context/);
  } finally {
    library.llama_init_from_model = init;
  }
  assert.equal([context.room, sequences[0]?.tokens.length], [1024, 1024]);
  const grown = openGrowing();
  await grown.compute(1, prompt);
  const next = long.slice(0, 5);
  assert.equal(await compute(1, next), await grown.compute(1, next));
  for (const each of [context, grown.context]) each.dispose();
});

test('libraries of another release are refused, with what differs', () => {
  checkLayouts(c);
  const refusal = (asked: Partial<typeof c>, layouts?: Parameters<typeof checkLayouts>[1]) => {
    try {
      checkLayouts({ ...c, ...asked }, layouts);
    } catch (thrown) {
      const { code, message } = thrown as { code: string; message: string };
      return [code, message.replace(/^.*: /, '')];
    }
    throw new Error('not refused');
  };
  const name = 'engine_unavailable';
  assert.equal(refusal({ llama_version: () => '0.6.0' }), [
    name,
    'its version is 0.6.0, and 0.5.0-dev is expected.',
  ]);
  // As if a field had come before the types of the cache.
  const context = c.llama_context_default_params();
  const moved = { ...context, type_k: 0, type_v: 1 };
  assert.equal(refusal({ llama_context_default_params: () => moved }), [
    name,
    'llama_context_params.type_k is 0 instead of 1.',
  ]);
  const { n_gpu_layers: _, ...fields } = LAYOUTS.llama_model_params;
  const wrong = { n_layers: ['int32_t', -1], ...fields } as const;
  assert.equal(refusal({}, { ...LAYOUTS, llama_model_params: wrong }), [
    name,
    'llama_model_params.n_layers is undefined instead of -1.',
  ]);
  assert.equal(refusal({ ggml_threadpool_params_init: () => {} }), [
    name,
    'ggml_threadpool_params has another layout.',
  ]);
});

test('the libraries have their names on each system', () => {
  const linux = [
    'libggml-base.so',
    'libggml.v0.5.0.so',
    'libllama.v0.5.0.so',
    'libggml-cpu-x64.so',
  ];
  assert.equal(libraryFiles(linux), {
    base: 'libggml-base.so',
    ggml: 'libggml.v0.5.0.so',
    llama: 'libllama.v0.5.0.so',
  });
  const mac = linux.map((file) => file.replace('.so', '.dylib'));
  assert.is(libraryFiles(mac).llama, 'libllama.v0.5.0.dylib');
  const windows = ['ggml-base.dll', 'ggml.v0.5.0.dll', 'llama.v0.5.0.dll'];
  assert.is(libraryFiles(windows).ggml, 'ggml.v0.5.0.dll');
  assert.throws(
    () => libraryFiles([...linux.slice(0, 2), 'libllama.v0.6.0.so']),
    (error: { code: string; cause: Error }) =>
      error.code === 'engine_missing' &&
      /no library llama of release 0\.5\.0/.test(`${error.cause}`),
  );
});

test('each package of libraries has the addon, and a process loads each file once', () => {
  const packages = globSync('node_modules/@node-llama-cpp/*/bins/*/');
  assert.ok(packages.length > 0);
  for (const each of packages) assert.ok(existsSync(join(each, ADDON)), each);
  if (process.platform !== 'linux') return;
  const loaded = readFileSync('/proc/self/maps', 'utf8').matchAll(
    /(\S+) +(\/\S+\/(?:llama-addon\.node|lib(?:llama|ggml)\S*))$/gm,
  );
  const files = new Map([...loaded].map(([, inode, file = '']) => [inode, basename(file)]));
  const names = [...files.values()];
  assert.is(new Set(names).size, names.length, names.join(' '));
  for (const name of [ADDON, 'libllama.v0.5.0.so']) assert.ok(names.includes(name), name);
});

/** The steps after a prompt and an answer so far. */
async function decoded(
  sampling: Sampling,
  answered: readonly Token[] = [],
  most = TOKENS - answered.length,
): Promise<Step[]> {
  const context = model.createContext({ contextSize: 256, sequences: 1, batch: 64, threads: 1 });
  const decoder = new Decoder(context, 1, 64);
  const sampler = new TokenSampler(model, sampling);
  const [member, sequence] = [newMember({ exact: true, batched: false }), { place: 0, tokens: [] }];
  const said = [...answered];
  const steps: Step[] = [];
  let next: readonly Token[] = prompt;
  for (const token of answered) {
    await decoder.compute(member, sequence, next, null);
    next = [token];
  }
  while (steps.length < most) {
    const step = await decoder.compute(member, sequence, next, sampler.after(said));
    steps.push(step);
    said.push(step.token);
    next = [step.token];
  }
  sampler.dispose();
  context.dispose();
  return steps;
}

async function evaluated(
  context: LlamaContext,
  { seed, options: { repeat_penalty, presence_penalty, frequency_penalty } = {} }: Sampling,
  options: SequenceEvaluateOptions,
): Promise<Token[]> {
  const sequence = context.getSequence();
  const tokens: Token[] = [];
  let next = otherPrompt;
  while (tokens.length < TOKENS) {
    const evaluation = sequence.evaluate(next, {
      ...options,
      seed: seedAt(seed, tokens.length),
      yieldEogToken: true,
      ...(repeat_penalty === undefined
        ? {}
        : {
            repeatPenalty: {
              punishTokens: tokens as typeof next,
              penalty: repeat_penalty,
              presencePenalty: presence_penalty ?? 0,
              frequencyPenalty: frequency_penalty ?? 0,
            },
          }),
    });
    for await (const token of evaluation) {
      tokens.push(token);
      next = [token];
      break;
    }
  }
  return tokens;
}

test.run();
