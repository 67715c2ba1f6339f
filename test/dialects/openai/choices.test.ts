import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunRecord } from '../../../src/contract/contract.ts';
import { SvcError } from '../../../src/errors.ts';
import { output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';
import { bootOpenai, end, hi, MODEL } from './boot.ts';

/** Several answers to one request: each is a run. */

type Context = Awaited<ReturnType<typeof bootOpenai>>;
const test = suite<Context>('choices');
test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const runsOf = async ({ real }: Context): Promise<readonly RunRecord[]> => {
  const { runs } = await real.runtime.runs.list({});
  const whole = runs.map(({ id }) => real.runtime.runs.get(id));
  return (await Promise.all(whole)).reverse();
};

test('each choice is a run, and the usage has the prompt once', async (context) => {
  const { client, real } = context;
  const { data, response } = await client.chat.completions
    .create({ ...hi, n: 3, seed: 2 ** 32 - 2 })
    .withResponse();
  assert.equal(
    data.choices.map(({ index, message, finish_reason }) => [
      index,
      message.content,
      finish_reason,
    ]),
    [0, 1, 2].map((index) => [index, 'Hello you', 'stop']),
  );
  const { prompt_tokens, completion_tokens, total_tokens } = data.usage ?? {};
  assert.equal([prompt_tokens, completion_tokens, total_tokens], [3, 6, 9]);
  const runs = await runsOf(context);
  assert.is(response.headers.get('x-svc-run-id'), runs[0]?.id);
  assert.is(data.id.replace('chatcmpl-', 'run_'), runs[0]?.id);
  assert.equal(
    real.provider.asked.map(({ request }) => request.seed),
    [2 ** 32 - 2, 2 ** 32 - 1, 0],
  );
  assert.is(runs.length, 3);
});

test('a stream has the choices with their index, one usage and one end', async ({ client }) => {
  const stream = await client.chat.completions.create({
    ...hi,
    n: 2,
    stream: true,
    stream_options: { include_usage: true },
  });
  const texts = ['', ''];
  const ends: unknown[] = [];
  const ids = new Set<string>();
  for await (const { id, choices, usage } of stream) {
    ids.add(id);
    for (const { index, delta, finish_reason } of choices) {
      texts[index] += delta.content ?? '';
      if (finish_reason !== null) ends.push(index);
    }
    if (usage != null) ends.push([usage.prompt_tokens, usage.completion_tokens]);
  }
  assert.equal(texts, ['Hello you', 'Hello you']);
  assert.equal(ends, [0, 1, [3, 4]]);
  assert.is(ids.size, 1);
});

test('completions have choices too, whole and streamed', async ({ client }) => {
  const asked = { model: MODEL, prompt: 'Once', n: 2 };
  const whole = await client.completions.create(asked);
  assert.equal(
    whole.choices.map(({ index, text }) => [index, text]),
    [
      [0, 'Hello you'],
      [1, 'Hello you'],
    ],
  );
  assert.is(whole.usage?.total_tokens, 7);
  const texts = ['', ''];
  for await (const { choices } of await client.completions.create({ ...asked, stream: true }))
    for (const { index, text } of choices) texts[index] += text;
  assert.equal(texts, ['Hello you', 'Hello you']);
});

test('a client that leaves cancels the choice that is answered, and no other one begins', async (context) => {
  const { client, real } = context;
  real.provider.script = (_, signal) => [output('Hello', 1), untilAborted(signal)];
  const stream = await client.chat.completions.create({ ...hi, n: 3, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content === 'Hello') break;
  await waitFor('the cancel', async () => (await runsOf(context))[0]?.state === 'cancelled');
  await turns();
  assert.equal(
    (await runsOf(context)).map(({ state }) => state),
    ['cancelled'],
  );
});

test('a key gives the same choices again', async (context) => {
  const { client } = context;
  const headers = { 'Idempotency-Key': 'k' };
  const one = await client.chat.completions.create({ ...hi, n: 2 }, { headers });
  const again = await client.chat.completions.create({ ...hi, n: 2 }, { headers });
  assert.equal(again, one);
  assert.equal(
    (await runsOf(context)).map(({ idempotency_key }) => idempotency_key),
    ['k', 'k/1'],
  );
});

test('a key belongs to the number of choices too', async (context) => {
  const { client } = context;
  const ask = async (key: string, n: number) => {
    const { choices } = await client.chat.completions.create(
      { ...hi, n },
      { headers: { 'Idempotency-Key': key } },
    );
    return choices.length;
  };
  assert.is(await ask('three', 3), 3);
  for (const n of [2, 4, 1]) {
    const thrown = await ask('three', n).catch((error) => error);
    assert.equal([thrown.status, thrown.code], [422, 'idempotency_conflict'], `n ${n}`);
  }
  assert.is(await ask('one', 1), 1);
  assert.is((await ask('one', 2).catch((error) => error)).status, 422);
  assert.is((await runsOf(context)).length, 4);
});

test('a choice that fails is the error of the request', async (context) => {
  const { client, real } = context;
  let answers = 0;
  real.provider.script = [
    output('a', 1),
    () => {
      answers += 1;
      if (answers === 2) throw new Error('It broke.');
    },
    end(),
  ];
  const thrown = await client.chat.completions.create({ ...hi, n: 3 }).catch((error) => error);
  assert.instance(thrown, Error);
  assert.equal(
    (await runsOf(context)).map(({ state }) => state),
    ['completed', 'failed'],
  );
});

test('a remote provider has all choices at once, and one that fails cancels those after it', async () => {
  const port = new ScriptedProvider('lan', []);
  port.script = (_, signal) =>
    port.asked.length === 1
      ? [new SvcError('provider_rejected'), end()]
      : [output('a', 1), untilAborted(signal)];
  const context = await bootOpenai({ remote: { lan: { port, kind: 'local' } } });
  const thrown = await context.client.chat.completions
    .create({ ...hi, model: 'lan/x', n: 3 })
    .catch((error) => error);
  assert.instance(thrown, Error);
  await waitFor('all ends', async () =>
    (await runsOf(context)).every(({ ended_at }) => ended_at !== null),
  );
  assert.equal(
    (await runsOf(context)).map(({ state }) => state),
    ['failed', 'cancelled', 'cancelled'],
  );
  await context.real.close();
});

test.run();
