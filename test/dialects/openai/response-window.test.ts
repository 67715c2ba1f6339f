import type OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, output } from '../../helpers/scripted-provider.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, end, errorOf, MODEL } from './boot.ts';

/** The count of an input, and compacted conversations. */
const test = suite<{ real: Real; client: OpenAI }>('the window of a response');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const CALL = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
const CONVERSATION = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'We launch on Tuesday.' },
  { role: 'assistant', content: 'Understood.' },
  CALL,
  { type: 'function_call_output', call_id: 'c', output: 'done' },
];
const compact = (client: OpenAI, more: object) =>
  client.responses.compact({ model: MODEL, input: CONVERSATION, ...more } as never);
const texts = (real: Real) =>
  asked(real).messages.map(({ role, content }) => [
    role,
    content.map((part) => ('text' in part ? part.text : part.type)).join(),
  ]);

test('an input is counted by the provider, or estimated and marked', async ({ real, client }) => {
  const ask = { model: MODEL, input: 'x'.repeat(400), instructions: 'Be brief.' };
  const guess = await client.responses.inputTokens.count(ask);
  assert.equal(guess, {
    object: 'response.input_tokens',
    input_tokens: 103,
    estimated: true,
  } as never);
  const counted: number[] = [];
  Object.assign(real.provider, {
    countTokens: async ({ messages }: { messages: unknown[] }) => counted.push(messages.length) + 6,
  });
  assert.equal(await client.responses.inputTokens.count(ask), {
    object: 'response.input_tokens',
    input_tokens: 7,
  } as never);
  assert.equal(counted, [2]);
  assert.is(real.provider.asked.length, 0, 'nothing is answered');
  const [status, , param] = await errorOf(
    client.responses.inputTokens.count({ ...ask, input: [{ type: 'x' }] } as never),
  );
  assert.equal([status, param], [400, 'input.0.type']);
});

test('a conversation is compacted to what others wrote and a summary', async ({ real, client }) => {
  real.provider.script = [output(' Launch on Tuesday; f is done. ', 1), finish()];
  const tools = [{ type: 'function', name: 'f', parameters: {}, strict: false }];
  const compacted = await compact(client, { instructions: 'Be exact.', tools });
  assert.equal([compacted.object, compacted.usage?.total_tokens], ['response.compaction', 2]);
  assert.is(asked(real).tool_choice, 'none');
  assert.match(String(texts(real).at(-1)), 'Summarise');
  const [system, user, summary] = compacted.output as unknown as Record<string, unknown>[];
  assert.equal([compacted.output.length, system?.role, user?.role], [3, 'system', 'user']);
  assert.is(summary?.type, 'compaction');
  assert.is(summary?.encrypted_content, 'svc-summary-1:Launch on Tuesday; f is done.');
  const next = { model: MODEL, input: [...compacted.output, { role: 'user', content: 'Go.' }] };
  await client.responses.create(next as never);
  const read = [
    ['system', 'Be brief.'],
    ['user', 'We launch on Tuesday.'],
    ['user', 'A summary of the conversation before this:\n\nLaunch on Tuesday; f is done.'],
    ['user', 'Go.'],
  ];
  assert.equal(texts(real), read);
  await client.responses.create({ model: MODEL, input: 'Go.', previous_response_id: compacted.id });
  assert.equal(texts(real), read, 'also by its id');
  const run = await real.runtime.runs.get(compacted.id.replace('resp_', 'run_'));
  assert.is(run.state, 'completed', 'the summary is a run of the history');
});

test('a trigger at the end of an input streams the summary as an item', async ({
  real,
  client,
}) => {
  real.provider.script = [output('In short.', 1), end()];
  const input = [...CONVERSATION, { type: 'compaction_trigger' }];
  const stream = await client.responses.create({
    model: MODEL,
    input: input as never,
    stream: true,
  });
  const types: string[] = [];
  for await (const { type } of stream) types.push(type.replace('response.', ''));
  assert.equal(types, [
    'created',
    'in_progress',
    'output_item.added',
    'output_item.done',
    'completed',
  ]);
  const before = [{ type: 'compaction_trigger' }, ...CONVERSATION];
  const [status, , param] = await errorOf(
    client.responses.create({ model: MODEL, input: before as never }),
  );
  assert.equal([status, param], [400, 'input.0']);
});

test('a summary that is not whole is an error, and one of another service is refused', async ({
  real,
  client,
}) => {
  for (const script of [[end()], [output('Half', 1), end('repetition')]]) {
    real.provider.script = script;
    assert.equal((await errorOf(compact(client, {}))).slice(0, 2), [502, 'provider_failed']);
  }
  const foreign = [{ type: 'compaction', encrypted_content: 'gAAAA' }];
  assert.equal(await errorOf(client.responses.create({ model: MODEL, input: foreign as never })), [
    400,
    'invalid_request',
    'input.0.encrypted_content',
  ]);
  assert.equal((await errorOf(compact(client, { model: undefined }))).slice(0, 1), [400]);
  assert.equal(await errorOf(compact(client, { input: null })), [400, 'invalid_request', 'input']);
});

test('the words of the paths are no ids', async ({ real }) => {
  for (const word of ['input_tokens', 'compact']) {
    const { status, headers } = await real.get(`/v1/responses/${word}`);
    assert.equal([status, headers.allow], [405, 'POST, OPTIONS'], word);
  }
});

test.run();
