import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Decoder, newMember } from '../../src/engine/decode/decoder.ts';
import { checkDraft, DraftModel } from '../../src/engine/decode/draft-model.ts';
import { Drafts, type DraftsOptions } from '../../src/engine/decode/drafts.ts';
import { Grammar } from '../../src/engine/decode/grammar.ts';
import { type Sampling, type Step, TokenSampler } from '../../src/engine/decode/sampler.ts';
import { steps } from '../../src/engine/decode/steps.ts';
import type { Model, Token } from '../../src/engine/native/model.ts';
import { type GgufOptions, makeGguf } from '../fixtures/models/make-gguf.ts';
import { emptySlot } from '../helpers/fake-decoder.ts';
import { openNative } from '../helpers/native-model.ts';

/** Guesses of the next tokens of an answer. */

const folder = mkdtempSync(join(tmpdir(), 'svc-drafts-'));
const made = (name: string, options: GgufOptions = {}) =>
  openNative(makeGguf(join(folder, name), options));
/** A batch of up to three tokens of such weights rounds as its tokens one by one. */
const model = await made('model.gguf', { bits: 4, width: 256 });
const prompt = model.tokenize('What does the library answer to this?');
const TOKENS = 64;

test.after(() => rmSync(folder, { recursive: true, force: true }));

const drafts = (tokens: readonly Token[], changes: Partial<DraftsOptions> = {}) =>
  new Drafts({ tokens, most: 200, cost: 0.5, model: null, isAlone: () => true, ...changes });

test('the tokens after the longest earlier copy of the last ones are guessed, of the latest copy', async () => {
  const guess = (...tokens: number[]) => drafts(tokens).guess();
  assert.equal(await guess(1, 2, 3, 4, 5, 9, 1, 2, 3), [4, 5, 9]);
  assert.equal(await guess(1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2, 3), [5, 0, 1], 'the latest');
  const longest = await guess(8, 1, 2, 3, 4, 0, 9, 1, 2, 3, 5, 0, 8, 1, 2, 3);
  assert.equal(longest, [4, 0, 9], 'the longest');
  assert.equal(await guess(7, 7, 7, 7), [7], 'a copy may overlap');
  assert.equal(await guess(2, 3, 4, 5, 2, 3), [], 'two tokens say little');
  assert.equal(await guess(1, 2, 3), []);
  assert.equal(await guess(1), []);
});

/** So many guesses are right. Then another token comes. Returns how many there were. */
async function guessed(open: Drafts, right: number, next: Token): Promise<number> {
  const guesses = await open.guess();
  for (const token of [...guesses.slice(0, right), next]) open.push(token);
  return guesses.length;
}

test('right guesses make more of them, up to a bound, and wrong ones make fewer', async () => {
  const open = drafts(Array.from({ length: 80 }, (_, at) => at % 40));
  const lengths: number[] = [];
  // The token after right guesses is the one of the copy.
  let next = 0;
  for (const right of [3, 5, 9, 16, 2]) {
    next += right;
    lengths.push(await guessed(open, right, right === 2 ? 99 : next % 40));
    next += 1;
  }
  assert.equal(lengths, [3, 5, 9, 16, 16]);
  assert.equal(open.usage, { drafted_tokens: 49, accepted_tokens: 35 });
  for (const token of [0, 1, 2]) open.push(token);
  assert.is((await open.guess()).length, 14);
});

test('guesses that are wrong end after a few, and each pause is longer', async () => {
  const open = drafts([1, 2, 3, 4, 1, 2, 3], { most: 400 });
  const asked: number[] = [];
  for (let round = 0; round < 50; round += 1) {
    if ((await guessed(open, 0, 100 + round)) > 0) asked.push(round);
    for (const token of [1, 2, 3]) open.push(token);
  }
  // Three times three, one and one. The pauses have 8 rounds and 16.
  assert.equal(asked, [0, 1, 2, 11, 12, 13, 30, 31, 32]);
  assert.equal(open.usage, { drafted_tokens: 15, accepted_tokens: 0 });
});

test('a run beside others guesses nothing, and neither does one that needs one token', async () => {
  const tokens = [1, 2, 3, 4, 5, 9, 1, 2, 3];
  assert.equal(await drafts(tokens, { isAlone: () => false }).guess(), []);
  assert.equal(await drafts(tokens, { most: tokens.length + 1 }).guess(), []);
  assert.equal(await drafts(tokens, { most: tokens.length + 3 }).guess(), [4, 5]);
});

const usual: Sampling = { temperature: 0.9, seed: 5, judged: 0, explained: null };
const penalties = { presence_penalty: 0.4, frequency_penalty: 0.3, dry_multiplier: 0.8 };
const LETTERS = 'root ::= ([a-z]{3} [0-9])+';

/** An answer, and how many of its guesses were right. `guess`: of tokens so far. */
async function answered(
  sampling: Sampling,
  guess: (so_far: readonly Token[]) => readonly Token[],
  grammar: Grammar | null = null,
) {
  const context = model.createContext({ contextSize: 256, sequences: 1, batch: 64, threads: 1 });
  const decoder = new Decoder(context, 1, 64);
  const within = grammar === null ? {} : { grammar: () => grammar };
  const sampler = new TokenSampler(model, { ...sampling, ...within });
  const member = newMember({ exact: false, batched: false });
  const slot = emptySlot();
  const said: Step[] = [];
  const judged = { guessed: 0, right: 0 };
  let guesses: Token[] = [];
  const scripted = {
    push: (token: Token) => {
      if (token === guesses.shift()) judged.right += 1;
    },
    guess: async () => {
      guesses = [...guess(said.map(({ token }) => token))];
      judged.guessed += guesses.length;
      return [...guesses];
    },
  } as unknown as Drafts;
  const take = (step: Step) => (said.push(step) === TOKENS ? said : null);
  const { signal } = new AbortController();
  const parts = [prompt.length];
  await steps(
    { prompt, parts, kept: 0, answered: [] },
    { decoder, member, slot, sampler, batch: 64, states: null, drafts: scripted, take, signal },
  );
  sampler.dispose();
  grammar?.dispose();
  context.dispose();
  return { said, judged, slot, batched: member.batched };
}

const none = () => [];
const cases: [name: string, sampling: Sampling, grammar?: string][] = [
  ['the most likely tokens', { ...usual, temperature: 0 }],
  ['sampled tokens', usual],
  ['tokens with penalties', { ...usual, options: penalties }],
  ['tokens with their scores', { ...usual, explained: 3 }],
  [
    'tokens of mirostat-like samplers',
    { ...usual, options: { xtc_probability: 0.5, typical_p: 0.9 } },
  ],
  ['tokens of a grammar', usual, LETTERS],
];

for (const [name, sampling, text] of cases) {
  test(`${name} are the same with guesses, right and wrong ones`, async () => {
    const grammar = () => (text === undefined ? null : new Grammar(model, text));
    const alone = await answered(sampling, none, grammar());
    const tokens = alone.said.map(({ token }) => token);
    assert.is(alone.said.length, TOKENS);
    assert.is(alone.batched, false);
    // Some guesses are wrong, at another place each time.
    const wrong = (so_far: readonly Token[]) =>
      tokens
        .slice(so_far.length, so_far.length + 2)
        .map((token, at) => (at === so_far.length % 5 ? (token + 1) % model.vocabulary : token));
    const { said, judged, slot, batched } = await answered(sampling, wrong, grammar());
    assert.equal(
      said.map(({ token }) => token),
      tokens,
    );
    assert.ok(batched, 'a batch rounds in another way');
    assert.ok(judged.right > 30 && judged.right < judged.guessed, JSON.stringify(judged));
    assert.equal(slot.tokens, [...prompt, ...tokens.slice(0, -1)], 'no wrong token stays');
    for (const [at, { score }] of said.entries())
      assert.ok(Math.abs((score?.logprob ?? 0) - (alone.said[at]?.score?.logprob ?? 0)) < 0.001);
  });
}

const draftOf = (draft: Model, target = model) => {
  const options = { contextSize: 256, sequences: 1, batch: 16, threads: 1 };
  return new DraftModel(draft.createContext(options), target, { batch: 16, threads: 1 });
};

test('a model guesses the tokens that it would say, from any text on', async () => {
  const tokens = (await answered({ ...usual, temperature: 0 }, none)).said.map(
    ({ token }) => token,
  );
  const draft = draftOf(model);
  const usually = { most: 6, least: 0, isWanted: () => true };
  const guess = (text: readonly Token[], changes = {}) =>
    draft.guess(Int32Array.from(text), { ...usually, ...changes });
  for (const at of [0, 7, 3, 40])
    assert.equal(
      await guess([...prompt, ...tokens.slice(0, at)]),
      tokens.slice(at, at + 6),
      `after ${at}`,
    );
  assert.equal(await guess(prompt, { least: 1 }), [], 'none is sure enough');
  assert.equal(await guess(Array(251).fill(5)), [], 'longer than its context');
  assert.is((await guess(Array(250).fill(5))).length, 6);
  assert.equal(await guess([...prompt, model.vocabulary]), [], 'it has no such token');
  let asked = 0;
  const isWanted = () => {
    asked += 1;
    return asked === 1;
  };
  assert.equal(await guess(Array(40).fill(6), { isWanted }), [], 'another run came');
  assert.is(asked, 2);
  assert.is(draft.cost, 1);
});

test('a draft model of another vocabulary is refused by its name', async () => {
  const refusal = async (name: string, options: GgufOptions) => {
    try {
      checkDraft(model, await made(name, options), 'small');
    } catch (thrown) {
      const { code, message } = thrown as { code: string; message: string };
      return [code, message];
    }
    return null;
  };
  assert.is(await refusal('small.gguf', { layers: 1 }), null);
  assert.is(await refusal('padded.gguf', { pieces: ['more'] }), null);
  const other = 'The draft model small does not fit: it has another vocabulary.';
  const many = Array.from({ length: 129 }, (_, at) => `more${at}`);
  assert.equal(await refusal('many.gguf', { pieces: many }), ['model_invalid', other]);
  const state =
    'The draft model small does not fit: its memory cannot go back to an earlier token.';
  assert.equal(await refusal('state.gguf', { architecture: 'mamba' }), ['model_invalid', state]);
});

test.run();
