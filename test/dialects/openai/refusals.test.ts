import OpenAI, { type APIError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { output, untilAborted } from '../../helpers/scripted-provider.ts';
import type { Real } from '../../transport/http/real.ts';
import { bootOpenai, clientOf, errorOf, HI, hi, weather } from './boot.ts';

const test = suite<{ real: Real; client: OpenAI }>('what the API of OpenAI refuses');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

test('errors have the status and form of OpenAI', async ({ real, client }) => {
  const create = (more: object) => client.chat.completions.create({ ...hi, ...more } as typeof hi);
  const wrongKey = clientOf(real, 'wrong').chat.completions.create(hi);
  assert.equal(await errorOf(wrongKey), [401, 'unauthorised', null]);
  for (const [more, param] of [
    [{ n: 9 }, 'n'],
    [{ n: 0 }, 'n'],
    [{ messages: [] }, 'messages'],
    [{ messages: 'x' }, 'messages'],
    [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
    [{ messages: [{ role: 'bot', content: 'x' }] }, 'messages.0.role'],
    [
      { messages: [{ role: 'user', content: [{ type: 'text', txt: 'x' }] }] },
      'messages.0.content.0.text',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] },
      'messages.0.content.0.input_audio',
    ],
    [{ messages: [{ role: 'tool', content: 'x', tool_call_id: 'a' }] }, 'messages.0.content.0'],
    [{ temperature: 3 }, 'temperature'],
    [{ modalities: ['audio'] }, 'modalities'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias.5'],
    [{ logit_bias: { hello: 1 } }, 'logit_bias.hello'],
    [
      { logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [id, 1])) },
      'logit_bias',
    ],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: -2 }, 'max_tokens'],
    [{ tools: [weather], parallel_tool_calls: 'no' }, 'parallel_tool_calls'],
    [{ top_k: -1 }, 'top_k'],
    [{ min_p: 2 }, 'min_p'],
    [{ repeat_penalty: 0 }, 'repeat_penalty'],
    [{ tools: [weather, weather] }, 'tools'],
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    [{ functions: [weather.function] }, 'functions'],
    [{ reasoning_effort: 'highest' }, 'reasoning_effort'],
    [{ thinking_budget: -2 }, 'thinking_budget'],
    [{ reasoning: { max_tokens: 1.5 } }, 'reasoning.max_tokens'],
    [{ thinking_budget: 5, reasoning: { max_tokens: 6 } }, 'reasoning.max_tokens'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ response_format: { type: 'grammar' } }, 'response_format.type'],
    [{ guided_choice: [] }, 'guided_choice'],
    [{ guided_choice: ['a', ''] }, 'guided_choice.1'],
    [{ choice: Array.from({ length: 2001 }, (_, at) => `${at}`) }, 'choice'],
    [{ guided_regex: 'a'.repeat(8193) }, 'guided_regex'],
    [{ regex: '(' }, 'regex'],
    [{ grammar: 'root ::= "a' }, 'grammar'],
    [{ ebnf: `root ::= "${'a'.repeat(65_536)}"` }, 'ebnf'],
    [{ structured_outputs: { structural_tag: {} } }, 'structured_outputs.structural_tag'],
    [{ guided_regex: 'a', guided_choice: ['a'] }, 'guided_choice'],
    [{ grammar: 'root ::= "a"', response_format: { type: 'json_object' } }, 'grammar'],
    [{ guided_json: '{' }, 'guided_json'],
    [{ json_schema: 7 }, 'json_schema'],
    [{ guided_json: {}, response_format: { type: 'json_object' } }, 'guided_json'],
    [{ structured_outputs: { json: {}, json_object: true } }, 'structured_outputs.json_object'],
  ] as const)
    assert.equal(await errorOf(create(more)), [400, 'invalid_request', param], param);
  assert.is(real.provider.asked.length, 0, 'nothing was asked');
});

test('what a model cannot do names its parameter, as each API calls it', async ({
  real,
  client,
}) => {
  const chat = () => client.chat.completions.create(hi);
  const stream = async () => {
    for await (const _ of await client.chat.completions.create({ ...hi, stream: true }));
  };
  const older = () => client.completions.create({ model: hi.model, prompt: 'Hi' });
  const response = () => client.responses.create({ model: hi.model, input: 'Hi' });
  for (const [code, inRun, inChat, inOlder, inResponse] of [
    ['capability_missing', 'tools', 'tools', 'tools', 'tools'],
    ['capability_missing', 'response_format', 'response_format', 'response_format', 'text.format'],
    ['capability_missing', 'messages.0.content.1', 'messages.0.content.1', 'prompt', 'input'],
    ['context_length_exceeded', 'messages', 'messages', 'prompt', 'input'],
  ] as const) {
    real.provider.script = [new SvcError(code, 'It cannot.', { param: inRun, retryable: false })];
    assert.equal(await errorOf(chat()), [400, code, inChat]);
    assert.equal(await errorOf(stream()), [400, code, inChat]);
    assert.equal(await errorOf(older()), [400, code, inOlder]);
    assert.equal(await errorOf(response()), [400, code, inResponse]);
  }
  const [run] = (await real.runtime.runs.list({ limit: 1 })).runs;
  assert.is(run?.error?.param, 'messages', 'the log has it');
});

test('an invalid schema is refused, and names its tool', async ({ real, client }) => {
  const withSchema = (parameters: object) =>
    client.chat.completions.create({
      ...hi,
      tools: [{ type: 'function', function: { name: 'f', parameters: parameters as never } }],
    });
  let deep: object = {};
  for (let level = 0; level < 100; level += 1) deep = { not: deep };
  const wide = { enum: Array.from({ length: 30_000 }, (_, index) => index) };
  for (const schema of [
    { type: 'objekt' },
    { type: 'object', properties: [] },
    { required: 'city' },
    { minimum: 'x' },
    { $ref: 5 },
    deep,
    wide,
  ])
    assert.equal(await errorOf(withSchema(schema)), [400, 'invalid_request', 'tools.0.parameters']);
  const endless = `${'{"not":'.repeat(50_000)}{}${'}'.repeat(50_000)}`;
  const tool = `{"type":"function","function":{"name":"f","parameters":${endless}}}`;
  const { status, json } = await real.get('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"messages":${JSON.stringify(HI)},"tools":[${tool}]}`,
  });
  assert.is(status, 400);
  assert.match(json.error.message, 'deeper than 128 levels');
  const format = { type: 'json_schema', json_schema: { name: 'n', schema: { type: 7 } } } as const;
  assert.equal(
    await errorOf(client.chat.completions.create({ ...hi, response_format: format as never })),
    [400, 'invalid_request', 'response_format.schema'],
  );
  for (const schema of [
    {},
    { $schema: 'http://json-schema.org/draft-07/schema#', type: 'array', items: [{}] },
    { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' },
    { $schema: 'nonsense', type: 'object' },
  ])
    await withSchema(schema);
  assert.is(real.provider.asked.length, 4);
});

test('sizes have bounds', async ({ real, client }) => {
  const many = Array.from({ length: 5000 }, () => HI[0]) as typeof HI;
  assert.equal(await errorOf(client.chat.completions.create({ ...hi, messages: many })), [
    400,
    'invalid_request',
    'messages',
  ]);
  const large = [{ role: 'user' as const, content: 'x'.repeat(10 * 1024 * 1024) }];
  const [status] = await errorOf(client.chat.completions.create({ ...hi, messages: large }));
  assert.is(status, 413);
  assert.is(real.provider.asked.length, 0);
});

test('a body with very many values is refused before any of them is checked', async ({
  real,
  client,
}) => {
  const { request_values: most } = real.config.limits;
  const begun = await errorOf(
    client.chat.completions.create({ ...hi, messages: Array(most).fill(1) }),
  );
  assert.equal(begun, [413, 'body_too_large', null]);
  const few = Array(most - 10).fill(1);
  assert.equal(await errorOf(client.chat.completions.create({ ...hi, messages: few })), [
    400,
    'invalid_request',
    'messages',
  ]);
});

test('an unknown model is a 404', async ({ real, client }) => {
  real.provider.script = [
    new SvcError('model_unknown', 'There is no model x.', { param: 'model' }),
  ];
  for (const stream of [false, true])
    assert.equal(
      (await errorOf(client.chat.completions.create({ ...hi, model: 'x', stream }))).slice(0, 2),
      [404, 'model_unknown'],
    );
});

test('a full queue is a 429 that says when to try again', async () => {
  const { real, client } = await bootOpenai({
    limits: { queue_runs: 1 },
    script: (_, signal) => [untilAborted(signal)],
  });
  const waiting = await real.runtime.runs.start({ prompt: 'x' }, 'test');
  const thrown = await client.chat.completions.create(hi).catch((error: unknown) => error);
  assert.instance(thrown, OpenAI.RateLimitError);
  assert.is((thrown as APIError).headers?.get('retry-after'), '1');
  await real.runtime.runs.cancel(waiting.id, 'test');
  await real.close();
});

test('a failure in the middle of a stream is an error, not an end', async ({ real, client }) => {
  const failure = new SvcError('engine_failed', 'It broke.', { retryable: false });
  real.provider.script = [output('a', 1), failure];
  const stream = await client.chat.completions.create({ ...hi, stream: true });
  let text = '';
  const thrown = await (async () => {
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    return null;
  })().catch((error: unknown) => error);
  assert.is(text, 'a');
  assert.instance(thrown, OpenAI.APIError);
  assert.match((thrown as Error).message, 'It broke.');
  const raw = await real.get('/v1/chat/completions', {
    method: 'POST',
    body: { ...hi, stream: true },
  });
  assert.not.match(raw.text, 'DONE');
  assert.is(raw.text.trimEnd().split('\n\n').at(-1)?.startsWith('data: {"error":{'), true);
});

test.run();
