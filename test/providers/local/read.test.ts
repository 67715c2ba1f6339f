import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AS_PROMPT, type Reading } from '../../../src/contract/reading.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { ReadInput } from '../../../src/ports/providers.ts';
import { testModel } from '../../../tools/test-models/models.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, runRequest } from '../../helpers/local-provider.ts';
import { makeModels } from '../../helpers/made-models.ts';

/** How a model reads a text, without an answer. */

const CONTEXT = 512;
let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ model: 'random', limits: { engine_context_tokens: CONTEXT } });
  makeModels(local.folder);
});
test.after(() => local.close());

const read = (
  of: ReadInput['of'],
  { model = 'random', ...options }: Partial<ReadInput> & { model?: string } = {},
  signal = new AbortController().signal,
): Promise<Reading> =>
  local.provider.read?.(model, { ...AS_PROMPT, top: null, ...options, of }, signal) ??
  Promise.reject(new Error('it cannot read'));
const ids = ({ tokens }: Reading) => tokens.map(({ id }) => id);

test('a text has its tokens, and the tokens have their text', async () => {
  const text = 'What is svc? ☃ done';
  const reading = await read(text);
  assert.is(reading.text, text);
  assert.ok(reading.tokens.every((token) => !('logprob' in token)));
  assert.not.ok('next' in reading);
  assert.equal(await read(ids(reading)), reading);
});

test('each token has its probability, and the likeliest ones in its place', async () => {
  const { tokens, next = [] } = await read('What is svc?', { top: 3 });
  assert.equal([tokens[0]?.logprob, tokens[0]?.top], [undefined, undefined]);
  for (const { id, logprob = 1, top = [] } of tokens.slice(1)) {
    const odds = top.map((one) => one.logprob);
    assert.equal([top.length, odds.toSorted((a, b) => b - a)], [3, odds]);
    assert.ok(logprob <= (odds[0] ?? -1) && logprob < 0);
    const own = top.find((one) => one.id === id);
    if (own !== undefined) assert.is(own.logprob, logprob);
  }
  assert.is(next.length, 3);
});

test('the likeliest next token is the one that the model answers with', async () => {
  const prompt = 'What is svc?';
  const request = runRequest({ model: 'random', prompt, raw: true, temperature: 0, max_tokens: 4 });
  const made: number[] = [];
  const attempt = { run_id: 'run_1', attempt: 1, request, resume: null };
  for await (const part of local.provider.stream(attempt, new AbortController().signal))
    if (part.type === 'output') made.push(...part.token_ids);
  const before = ids(await read(prompt));
  for (const [index, token] of made.entries()) {
    const { next } = await read([...before, ...made.slice(0, index)], { top: 1 });
    assert.is(next?.[0]?.id, token);
  }
});

test('the prompt of a request is its conversation in the template', async () => {
  const reading = await read(runRequest({ model: 'random', prompt: 'Hi <|im_end|>' }), {
    model: 'random',
  });
  assert.match(reading.text, '<|im_start|>user\nHi <|im_end|><|im_end|>');
  assert.ok(reading.text.endsWith('<|im_start|>assistant\n'), reading.text);
});

test('what cannot be read is refused by name', async () => {
  const unknown = await failure(read([1, 999_999]));
  assert.is(unknown.code, 'invalid_request');
  assert.match(unknown.message, 'The model has no token 999999');
  const long = Array.from({ length: CONTEXT + 1 }, () => 1);
  assert.is((await read(long)).tokens.length, CONTEXT + 1);
  assert.is((await failure(read(long, { top: 1 }))).code, 'context_length_exceeded');
  assert.is((await read(long.slice(1), { top: 1 })).tokens.length, CONTEXT);
});

test('a client that leaves ends the reading, and the next one is right', async () => {
  const gone = new AbortController();
  const long = Array.from({ length: CONTEXT }, () => 1);
  const reading = read(long, { top: 1 }, gone.signal);
  gone.abort(new Error('gone') as SvcError);
  const thrown = await reading.catch((error: unknown) => error);
  assert.instance(thrown, Error);
  const [one, other] = await Promise.all([read([1, 2], { top: 1 }), read([1, 2], { top: 1 })]);
  assert.equal(one, other);
});

const smollm2 = testModel('smollm2');
if (smollm2 === null) console.log('skipped: no models of npm run test-models');
const withModel = smollm2 === null ? test.skip : test;

withModel('the probabilities of SmolLM2 are those that llama-server says', async () => {
  const text = 'The quick brown fox jumps over the lazy dog.';
  const { tokens } = await read(text, { model: smollm2 ?? '', top: 1 });
  for (const [index, expected] of LLAMA_SERVER.entries()) {
    const { logprob = 1, text: token } = tokens[index + 1] ?? {};
    assert.ok(Math.abs(logprob - expected) < PROCESSORS, `${token}: ${logprob}, not ${expected}`);
  }
  assert.is(tokens.length, LLAMA_SERVER.length + 1);
});

/**
 * What two processors may differ by: those with AMX round the numbers of a layer otherwise than
 * AVX-512 does, and two builds of llama-server on one machine differed by 0.4. A temperature of 0.9
 * would change the first one by 1.6.
 */
const PROCESSORS = 0.5;
/** By version 0.1.0-dev, from the second token on. */
const LLAMA_SERVER = [
  -14.3339, -6.1901, -1.4756, -6.7584, -0.0064, -3.0602, -2.6048, -0.1031, -1.7618,
];

test.run();
