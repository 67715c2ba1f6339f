import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatBody } from '../../../src/cloud/openai/body.ts';
import { options } from '../../../src/contract/options.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { Asking } from '../../helpers/asking.ts';
import { outcome, type RemoteOptions, remote, runRequest } from '../../helpers/remote.ts';
import { Upstream } from '../../helpers/upstream.ts';

/** The request that the server gets for a run. */
async function sent(
  request: Asking,
  options: RemoteOptions = {},
): Promise<Record<string, unknown>> {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url, options);
  await outcome(provider, { request });
  await provider.close();
  await upstream.stop();
  return JSON.parse(upstream.received[0]?.body ?? '{}') as Record<string, unknown>;
}

test('a request has only the fields of the run, and always asks for a stream with usage', async () => {
  assert.equal(await sent({ prompt: 'Hi', seed: 7 }), {
    model: 'm',
    seed: 7,
    messages: [{ role: 'user', content: 'Hi' }],
    stream: true,
    stream_options: { include_usage: true },
  });
});

test('every setting of a run is sent', async () => {
  const body = await sent({
    prompt: 'Hi',
    system: 'Be brief.',
    model: 'other/m:2',
    max_tokens: 5,
    temperature: 0,
    seed: 7,
  });
  assert.equal(body.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ]);
  assert.equal([body.model, body.max_tokens, body.temperature, body.seed], ['other/m:2', 5, 0, 7]);
});

test('only an explicit seed is sent', async () => {
  assert.is((await sent({ seed: 7, seed_asked: false })).seed, undefined);
});

test('a prompt is sent as it is, whatever it contains', async () => {
  const prompt = 'a"\\\n\u0000\u2028𝄞 {{x}} </s>';
  assert.equal((await sent({ prompt })).messages, [{ role: 'user', content: prompt }]);
});

test('a request without a model uses the default model', async () => {
  assert.is((await sent({ model: '' }, { config: { model: 'default' } })).model, 'default');
});

const OPENAI = { base_url: 'https://api.openai.com/v1', stream: true };
const OTHER = { base_url: 'https://api.openai.com.example.org/v1', stream: true };

/** The body as the server gets it. */
const bodyOf = (server: typeof OPENAI & { like?: string }, request: Asking) =>
  JSON.parse(JSON.stringify(chatBody(server, 'm', runRequest(request))));

test('OpenAI gets the new name of the output limit, others the old one', () => {
  const openai = bodyOf(OPENAI, { max_tokens: 5 });
  assert.equal([openai.max_completion_tokens, 'max_tokens' in openai], [5, false]);
  const other = bodyOf(OTHER, { max_tokens: 5 });
  assert.equal([other.max_tokens, 'max_completion_tokens' in other], [5, false]);
  for (const request of [{}, { max_tokens: options.max_tokens.max }])
    assert.not.match(JSON.stringify(bodyOf(OPENAI, request)), /max_(completion_)?tokens/);
});

test('the form of a text is sent where a server has a field for it, and refused elsewhere', () => {
  const [regex, choice, grammar] = ['a+', ['a', 'b'], 'root ::= "a"'];
  const vllm = { ...OTHER, like: 'vllm' };
  for (const form of [{ regex }, { choice }, { grammar }]) {
    const { structured_outputs, ...body } = bodyOf(vllm, form);
    assert.equal(structured_outputs, form);
    assert.not.match(Object.keys(body).join(' '), /regex|choice|grammar/);
  }
  const llama = { ...OTHER, like: 'llama-server' };
  assert.is(bodyOf(llama, { grammar }).grammar, grammar);
  for (const [server, form, param] of [
    [llama, { regex }, 'regex'],
    [llama, { choice }, 'choice'],
    [OPENAI, { grammar }, 'grammar'],
    [OTHER, { grammar }, 'grammar'],
  ] as const)
    assert.throws(
      () => bodyOf(server, form),
      (thrown: SvcError) => thrown.code === 'capability_missing' && thrown.param === param,
    );
});

test('a budget of reasoning is sent where a server has a field for it, and is an effort elsewhere', () => {
  const asked = (like: string | undefined, request: Asking) => {
    const body = bodyOf({ ...OTHER, ...(like === undefined ? {} : { like }) }, request);
    const { reasoning_budget_tokens, thinking_token_budget, reasoning_effort } = body;
    return { reasoning_budget_tokens, thinking_token_budget, reasoning_effort };
  };
  const none = asked(undefined, {});
  assert.equal(asked('llama-server', { reasoning_budget_tokens: 7 }), {
    ...none,
    reasoning_budget_tokens: 7,
  });
  assert.equal(asked('vllm', { reasoning_budget_tokens: 7 }), {
    ...none,
    thinking_token_budget: 7,
  });
  for (const [budget, effort] of [
    [0, 'none'],
    [1, 'low'],
    [2048, 'low'],
    [2049, 'medium'],
    [8192, 'medium'],
    [8193, 'high'],
  ] as const)
    assert.equal(asked(undefined, { reasoning_budget_tokens: budget }), {
      ...none,
      reasoning_effort: effort,
    });
  const both = { reasoning_budget_tokens: 1, reasoning_effort: 'high' } as const;
  assert.is(asked(undefined, both).reasoning_effort, 'high', 'what is said goes before');
});

test('OpenAI gets no reasoning in messages, others do', () => {
  const content = [{ type: 'reasoning', text: 'Hm.' } as const, ...text('Hi')];
  const messages = [{ role: 'assistant', content } as const];
  assert.equal(bodyOf(OPENAI, { messages }).messages, [{ role: 'assistant', content: 'Hi' }]);
  assert.equal(bodyOf(OTHER, { messages }).messages, [
    { role: 'assistant', content: 'Hi', reasoning_content: 'Hm.' },
  ]);
});

test('effort, single calls and sampling are sent by the names that servers know', async () => {
  const body = await sent({
    reasoning_effort: 'low',
    parallel_tool_calls: false,
    top_k: 5,
    min_p: 0.1,
    verbosity: 'high',
    repeat_penalty: 1,
    typical_p: 0.7,
    dry_multiplier: 0.8,
    logit_bias: { 5: -100 },
    tools: [{ name: 't', description: null, parameters: {} }],
  });
  const { reasoning_effort, parallel_tool_calls, top_k, min_p, repeat_penalty } = body;
  assert.equal([reasoning_effort, parallel_tool_calls, top_k, min_p], ['low', false, 5, 0.1]);
  assert.is(body.verbosity, 'high');
  assert.equal([body.typical_p, body.dry_multiplier], [0.7, 0.8], 'neighbours know them');
  assert.equal(body.logit_bias, { 5: -100 });
  assert.is((await sent({ logit_bias: {} })).logit_bias, undefined, 'it changes nothing');
  assert.is(repeat_penalty, undefined, 'it changes nothing');
  assert.is((await sent({ parallel_tool_calls: true })).parallel_tool_calls, undefined);
});

test('sampling that a server does not know is refused before it is asked', async () => {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url);
  for (const [param, value] of Object.entries({ repeat_penalty: 1.1, context_tokens: 8192 })) {
    const { failure } = await outcome(provider, { request: { [param]: value } });
    assert.equal([failure?.code, failure?.param], ['capability_missing', param]);
    assert.is(failure?.retryable, false);
  }
  await provider.close();
  await upstream.stop();
  assert.equal(upstream.received, []);
});

test('a beginning of the answer is refused: servers differ in what follows an assistant', () => {
  const said = (role: 'user' | 'assistant') => ({
    role,
    content: [{ type: 'text' as const, text: 'So' }],
  });
  const messages = [said('user'), { ...said('assistant'), continued: true as const }];
  assert.throws(
    () => bodyOf(OPENAI, { messages }),
    (error: SvcError) => error.code === 'capability_missing' && error.param === 'messages.1',
  );
  // Without the mark the server decides, as it does for programs of OpenAI's API.
  bodyOf(OPENAI, { messages: [said('user'), said('assistant')] });
});

test('sampling that OpenAI does not know is refused, never left out', () => {
  for (const [param, value] of Object.entries({ min_p: 0.1, top_k: 5 }))
    assert.throws(
      () => bodyOf(OPENAI, { [param]: value }),
      (error: SvcError) => error.code === 'capability_missing' && error.param === param,
    );
});

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==';
const text = (said: string) => [{ type: 'text', text: said }] as const;

test('a conversation is sent with all its parts, in its order', async () => {
  const { messages } = await sent({
    messages: [
      { role: 'system', content: [...text('Be '), ...text('brief.')] },
      {
        role: 'user',
        content: [
          ...text('What is this?'),
          { type: 'image', media_type: 'image/png', data: PNG },
          ...text('Look well.'),
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'Hm.' },
          ...text('I look.'),
          { type: 'tool_call', id: 'a', name: 'look', arguments: '{"at":1}' },
          { type: 'tool_call', id: 'b', name: 'wait', arguments: '' },
        ],
      },
      {
        role: 'tool',
        content: [{ type: 'tool_result', id: 'a', text: 'A dot.', is_error: false }],
      },
      {
        role: 'tool',
        content: [{ type: 'tool_result', id: 'b', text: 'Too long.', is_error: true }],
      },
      { role: 'assistant', content: [{ type: 'refusal', text: 'I cannot say.' }] },
      { role: 'system', content: text('Be kind.') },
      { role: 'user', content: text('And now?') },
    ],
  });
  const call = (id: string, name: string, args: string) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  });
  assert.equal(messages, [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
        { type: 'text', text: 'Look well.' },
      ],
    },
    {
      role: 'assistant',
      content: 'I look.',
      reasoning_content: 'Hm.',
      tool_calls: [call('a', 'look', '{"at":1}'), call('b', 'wait', '{}')],
    },
    { role: 'tool', tool_call_id: 'a', content: 'A dot.' },
    { role: 'tool', tool_call_id: 'b', content: 'Too long.' },
    { role: 'assistant', content: 'I cannot say.' },
    { role: 'system', content: 'Be kind.' },
    { role: 'user', content: 'And now?' },
  ]);
});

test('every wish of a request is sent, and no other', async () => {
  const tool = { name: 'look', description: 'Looks.', parameters: { type: 'object' } };
  const body = await sent({
    prompt: 'Hi',
    seed_asked: false,
    tools: [tool, { name: 'wait', description: null, parameters: {} }],
    tool_choice: 'required',
    stop: ['END'],
    top_p: 0.5,
    presence_penalty: 1,
    frequency_penalty: -1,
    logprobs: 3,
  });
  assert.equal(body, {
    model: 'm',
    top_p: 0.5,
    presence_penalty: 1,
    frequency_penalty: -1,
    stop: ['END'],
    tools: [
      { type: 'function', function: tool },
      { type: 'function', function: { name: 'wait', parameters: {} } },
    ],
    tool_choice: 'required',
    logprobs: true,
    top_logprobs: 3,
    messages: [{ role: 'user', content: 'Hi' }],
    stream: true,
    stream_options: { include_usage: true },
  });
  const named = await sent({ tools: [tool], tool_choice: { name: 'look' }, logprobs: 0 });
  assert.equal(named.tool_choice, { type: 'function', function: { name: 'look' } });
  assert.equal([named.logprobs, named.top_logprobs], [true, undefined]);
});

test('a format is any JSON, or a schema that is strict where OpenAI allows it', async () => {
  const formatOf = async (schema: Record<string, unknown> | null) =>
    (await sent({ response_format: { type: 'json', name: 'answer', schema } })).response_format;
  assert.equal(await formatOf(null), { type: 'json_object' });
  const inner = { type: 'object', properties: { b: { type: 'string' } }, required: ['b'] };
  const closed = { ...inner, additionalProperties: false };
  const around = (part: object) => ({
    type: 'object',
    properties: { a: { type: 'array', items: part } },
    required: ['a'],
    additionalProperties: false,
  });
  for (const [schema, strict] of [
    [around(closed), true],
    [around(inner), false],
    [around({ ...closed, required: [] }), false],
  ] as const)
    assert.equal(await formatOf(schema), {
      type: 'json_schema',
      json_schema: { name: 'answer', strict, schema },
    });
});

test.run();
