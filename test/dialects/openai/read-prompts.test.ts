import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Reading } from '../../../src/contract/reading.ts';
import type { ReadInput } from '../../../src/ports/providers.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** Prompts of POST /v1/completions: their probabilities, lists of them, and ids of tokens. */
const test = suite<{ real: Real; read: ReadInput[] }>('prompts that are read');

test.before.each(async (context) => {
  context.read = [];
  const real = await bootReal({ script: [output('!', 1), finish()] });
  Object.assign(real.provider, {
    async read(_model: string, input: ReadInput) {
      context.read.push(input);
      return readingOf(input);
    },
    countTokens: async () => 7,
  });
  context.real = real;
});
test.after.each(({ real }) => real.close());

/** Each letter is a token. Its id is the code of the letter, and its probability depends on it. */
function readingOf({ of, top }: ReadInput): Reading {
  const codes = typeof of === 'string' ? [...of].map((one) => one.charCodeAt(0)) : (of as number[]);
  const text = (id: number) => String.fromCharCode(id === NOT_WRITTEN ? 65 : id);
  const token = (id: number) => ({ id, text: text(id) });
  const likely = { ...token(90), logprob: -0.5 };
  const scored = (id: number) => (id === 90 ? -0.5 : -id);
  return {
    text: codes.map(text).join(''),
    tokens: codes.map((id, at) => ({
      ...token(id),
      ...(top === null || at === 0 ? {} : { logprob: scored(id), top: [likely] }),
    })),
    ...(top === null ? {} : { next: [likely] }),
  };
}
/** Its text is that of another token. */
const NOT_WRITTEN = 7;

const post = (real: Real, body: object) =>
  real.get('/v1/completions', {
    method: 'POST',
    body: JSON.stringify({ model: 'local/base', ...body }),
  });
const runsOf = async (real: Real) => (await real.runtime.runs.list({})).runs.length;
/** What lm-eval sends for a log-likelihood. */
const SCORED = { max_tokens: 1, temperature: 0, logprobs: 1, seed: 1234, echo: true };

test('ids of tokens with their probabilities are no run', async ({ real, read }) => {
  const { status, json } = await post(real, {
    prompt: [
      [65, 66],
      [67, 90],
    ],
    ...SCORED,
  });
  assert.is(status, 200, JSON.stringify(json));
  const [one, other] = json.choices;
  assert.equal([json.choices.length, one.index, other.index], [2, 0, 1]);
  assert.equal([one.text, one.finish_reason], ['ABZ', 'length']);
  assert.equal(one.logprobs, {
    tokens: ['A', 'B', 'Z'],
    token_logprobs: [null, -66, -0.5],
    top_logprobs: [null, { Z: -0.5, B: -66 }, { Z: -0.5 }],
    text_offset: [0, 1, 2],
  });
  assert.equal(other.logprobs.top_logprobs, [null, { Z: -0.5 }, { Z: -0.5 }]);
  const { prompt_tokens, completion_tokens, total_tokens } = json.usage;
  assert.equal([prompt_tokens, completion_tokens, total_tokens], [4, 2, 6]);
  assert.equal([await runsOf(real), real.provider.asked.length], [0, 0]);
  assert.equal(
    read.map(({ of, top }) => [of, top]),
    [
      [[65, 66], 1],
      [[67, 90], 1],
    ],
  );
});

test('the prompt alone, without a token after it', async ({ real }) => {
  const { json } = await post(real, { prompt: 'AB', ...SCORED, max_tokens: 0 });
  assert.equal([json.choices[0].text, json.choices[0].logprobs.tokens], ['AB', ['A', 'B']]);
  assert.equal([json.usage.completion_tokens, await runsOf(real)], [0, 0]);
});

test('the token with which a model begins a prompt is no text of the client', async ({ real }) => {
  Object.assign(real.provider, {
    async read(_model: string, input: ReadInput) {
      const { tokens, next = [] } = readingOf(input);
      const begin = { id: 1, text: '<s>' };
      const [first, ...others] = tokens.map((token) => ({ logprob: -3, top: [], ...token }));
      return { text: `<s>${input.of}`, tokens: [begin, first, ...others], next };
    },
  });
  for (const more of [{}, { max_tokens: 5 }]) {
    const { json } = await post(real, { prompt: 'AB', ...SCORED, ...more });
    const { text, logprobs } = json.choices[0];
    assert.is(text.slice(0, 2), 'AB');
    assert.equal(logprobs.tokens.slice(0, 3), ['<s>', 'A', 'B']);
    assert.equal(logprobs.text_offset.slice(0, 3), [0, 0, 1]);
  }
  assert.equal(real.provider.asked[0]?.request.messages[0]?.content, [
    { type: 'text', text: 'AB' },
  ]);
});

test('any other answer is a run, whose probabilities follow those of the prompt', async (context) => {
  const { real } = context;
  const token = { token: '!', logprob: -0.25, top: [{ token: '?', logprob: -2 }] };
  real.provider.script = [{ ...output('!', 1), logprobs: [token] } as never, finish()];
  const expected = {
    tokens: ['A', 'B', '!'],
    token_logprobs: [null, -66, -0.25],
    top_logprobs: [null, { Z: -0.5, B: -66 }, { '?': -2, '!': -0.25 }],
    text_offset: [0, 1, 2],
  };
  for (const more of [{ max_tokens: 5 }, { temperature: 0.5 }, { stop: ['x'] }]) {
    const { json } = await post(real, { prompt: 'AB', ...SCORED, ...more });
    assert.equal([json.choices[0].text, json.choices[0].logprobs], ['AB!', expected]);
  }
  assert.is(await runsOf(real), 3);
  const { text } = await post(real, { prompt: 'AB', ...SCORED, stream: true });
  const chunks = text
    .split('\n\n')
    .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6)).choices[0]] : []));
  assert.is(chunks.map((chunk) => chunk.text).join(''), 'AB!');
  const lists = chunks.flatMap(({ logprobs }) => logprobs ?? []);
  for (const [name, values] of Object.entries(expected))
    assert.equal(
      lists.flatMap((list) => list[name]),
      values,
    );
});

test('each prompt of a list has its answers, and counts once', async ({ real }) => {
  const { json } = await post(real, { prompt: ['One', 'Two'], n: 2, seed: 5, echo: true });
  assert.equal(
    json.choices.map(({ index, text, logprobs }: never) => [index, text, logprobs]),
    ['One!', 'One!', 'Two!', 'Two!'].map((text, index) => [index, text, null]),
  );
  assert.equal(
    real.provider.asked.map(({ request }) => [request.messages[0]?.content, request.seed]),
    [
      ['One', 5],
      ['One', 6],
      ['Two', 5],
      ['Two', 6],
    ].map(([text, seed]) => [[{ type: 'text', text }], seed]),
  );
  assert.equal([json.usage.prompt_tokens, json.usage.completion_tokens], [2, 4]);
  const none = await post(real, { prompt: ['One', 'Two'], max_tokens: 0, echo: true });
  assert.equal(
    none.json.choices.map(({ text }: { text: string }) => text),
    ['One', 'Two'],
  );
  assert.is(none.json.usage.prompt_tokens, 14);
});

test('ids are a prompt if the model reads the same ones in their text', async ({ real }) => {
  const { json } = await post(real, { prompt: [72, 105], max_tokens: 3, echo: true });
  assert.is(json.choices[0].text, 'Hi!');
  assert.equal(real.provider.asked[0]?.request.messages[0]?.content, [
    { type: 'text', text: 'Hi' },
  ]);
  const refused = await post(real, { prompt: [[72], [105, NOT_WRITTEN]], max_tokens: 3 });
  assert.equal([refused.status, refused.json.error.param], [400, 'prompt.1']);
  assert.match(refused.json.error.message, 'the first other one is 1.');
  const scored = await post(real, { prompt: [105, NOT_WRITTEN], ...SCORED });
  assert.equal(scored.json.choices[0].logprobs.tokens, ['i', 'A', 'Z']);
});

test('what cannot be read is refused by name', async ({ real }) => {
  const many = Array(129).fill('a');
  const form = 'must be a text, a list of texts, or ids of tokens.';
  for (const [body, status, param, message] of [
    [{ prompt: many }, 400, 'prompt', 'at most 128'],
    [{ prompt: many.slice(1), n: 2 }, 400, 'prompt', 'more than 128 answers'],
    [{ prompt: [] }, 400, 'prompt', form],
    [{ prompt: [1.5] }, 400, 'prompt.0', 'must be a whole number'],
    [{ prompt: [{}] }, 400, 'prompt.0', 'must be'],
    [{ prompt: 'a', logprobs: 21 }, 400, 'logprobs', '20'],
    [{ prompt: 'a', ...SCORED, max_tokens: 0, stream: true }, 400, 'stream', 'leave stream out'],
  ] as const) {
    const { json, ...answer } = await post(real, body);
    assert.equal([answer.status, json.error.param], [status, param], JSON.stringify(json));
    assert.match(json.error.message, message);
  }
  Object.assign(real.provider, { read: undefined });
  const { status, json } = await post(real, { prompt: 'a', ...SCORED });
  assert.equal([status, json.error.code], [400, 'capability_missing']);
  assert.match(json.error.message, 'The tokens of local are not known here.');
});

test.run();
