import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { CACHE, testModel } from '../../../tools/test-models/models.ts';
import type { Asking } from '../../helpers/asking.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  runRequest,
  type WholeAnswer,
} from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

/** A real model answers with guessed tokens as without them. A request with a seed has none. */

const test = suite<{ local: LocalHarness }>('guesses of real models');
const here = testModel('smollm2') === null ? test.skip : test;
if (testModel('smollm2') === null) console.log('skipped: no models of npm run test-models');

const smollm2 = { models: CACHE, model: 'smollm2', batching: true } as const;
test.before((context) => {
  context.local = makeLocalProvider(smollm2);
});
test.after(({ local }) => local.close());

const COPIED =
  'Repeat this text word by word: The council met on Tuesday evening to discuss the new library. ' +
  'The mayor said that the library would be finished by the end of next year. Residents asked ' +
  'about the cost of the library, and the council answered that it would be four million dollars.';
const NAMES = {
  type: 'object',
  properties: { names: { type: 'array', items: { type: 'string' }, maxItems: 4 } },
  required: ['names'],
  additionalProperties: false,
};
const asked: Asking = { model: 'smollm2', prompt: COPIED, max_tokens: 96 };

let clients = 0;
/** Each answer is of another client, so its prompt is computed in the same batches. */
async function read(
  { provider }: LocalHarness,
  asking: Asking,
  more: Partial<AttemptRequest> = {},
  heard: WholeAnswer = { text: '', token_ids: [], parts: [], finish: null },
): Promise<WholeAnswer> {
  clients += 1;
  const request = runRequest({ ...asked, ...asking });
  const ids = { run_id: `run_${clients}`, client: `client ${clients}`, attempt: 1 };
  const { signal } = new AbortController();
  for await (const part of provider.stream({ ...ids, request, resume: null, ...more }, signal)) {
    heard.parts.push(part);
    if (part.type === 'finish') heard.finish = part;
    else {
      heard.text += part.text;
      heard.token_ids.push(...part.token_ids);
    }
  }
  return heard;
}

const without = (local: LocalHarness, asking: Asking = {}) =>
  read(local, { ...asking, seed_asked: true });
const guessing = (local: LocalHarness, asking: Asking = {}) =>
  read(local, { ...asking, seed_asked: false });
const acceptedOf = ({ finish }: WholeAnswer) => finish?.usage.accepted_tokens ?? 0;

const cases: [name: string, asking: Asking][] = [
  ['the likeliest tokens', {}],
  ['sampled tokens', { temperature: 0.7, seed: 3 }],
  ['tokens with penalties', { frequency_penalty: 0.2, presence_penalty: 0.1 }],
  ['a stop text', { stop: ['Residents'] }],
  ['a bound', { max_tokens: 17 }],
  [
    'JSON',
    {
      prompt: 'As JSON with names: Anna, Bert, Carla, Dora. Again: {"names": ["Anna", "Bert", ',
      response_format: { type: 'json', name: null, schema: NAMES },
    },
  ],
];

for (const [name, asking] of cases)
  here(`${name}: the answer is the same`, async ({ local }) => {
    const [alone, guessed] = [await without(local, asking), await guessing(local, asking)];
    assert.is(guessed.text, alone.text);
    assert.equal(guessed.token_ids, alone.token_ids);
    assert.is(guessed.finish?.finish_reason, alone.finish?.finish_reason);
    assert.is(acceptedOf(alone), 0);
    assert.ok(acceptedOf(guessed) > 0, JSON.stringify([guessed.text, guessed.finish?.usage]));
  });

here('log-probabilities are the same', async ({ local }) => {
  const scoresOf = ({ parts }: WholeAnswer) =>
    parts.flatMap((part) => (part.type === 'output' ? (part.logprobs ?? []) : []));
  const asking = { logprobs: 2 };
  const [alone, guessed] = [await without(local, asking), await guessing(local, asking)];
  assert.ok(acceptedOf(guessed) > 0);
  const [expected, found] = [scoresOf(alone), scoresOf(guessed)];
  assert.is(found.length, guessed.token_ids.length);
  for (const [at, { token, logprob }] of found.entries()) {
    assert.is(token, expected[at]?.token);
    assert.ok(Math.abs(logprob - (expected[at]?.logprob ?? 1)) < 0.01);
  }
});

for (const count of [4, 8])
  here(`${count} answers at one time are those of one alone`, async ({ local }) => {
    const { text } = await without(local);
    const together = await Promise.all(Array.from({ length: count }, () => guessing(local)));
    for (const answer of together) assert.is(answer.text, text);
  });

here('an answer whose engine is killed continues with the same text', async ({ local }) => {
  // Its answer is long: the engine is killed within it.
  const long = { prompt: 'List ten tips for learning a language.', max_tokens: 256 };
  const whole = await without(local, long);
  const first = makeLocalProvider(smollm2);
  const heard: WholeAnswer = { text: '', token_ids: [], parts: [], finish: null };
  const killed = read(first, { ...long, seed_asked: false }, {}, heard).catch(() => null);
  try {
    await waitFor('a part of the answer', () => heard.token_ids.length >= 20);
    process.kill(first.pid(), 'SIGKILL');
    assert.is(await killed, null);
  } finally {
    await first.close();
  }
  assert.ok(heard.token_ids.length < whole.token_ids.length);
  const cut = { text: heard.text, token_ids: [...heard.token_ids], parts: [] };
  const resume = { ...cut, model_file: null, threads: null, batched: true };
  await read(local, { ...long, seed_asked: false }, { attempt: 2, resume }, heard);
  assert.is(heard.text, whole.text);
  assert.equal(heard.token_ids, whole.token_ids);
});

test.run();
