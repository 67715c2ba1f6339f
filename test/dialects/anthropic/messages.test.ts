import Anthropic from '@anthropic-ai/sdk';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { FinishReason } from '../../../machines/run/context.ts';
import { SvcError } from '../../../src/errors.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { finish, gate, output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER, TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

const test = suite<{ real: Real; client: Anthropic }>('messages of Anthropic');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('Hello', 1), output(' you', 2), finish()] });
  context.client = new Anthropic({ apiKey: TOKEN, baseURL: context.real.url, maxRetries: 0 });
});
test.after.each(({ real }) => real.close());

const ASKED = {
  model: 'local/svc-mini',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'Hi' }],
};
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const thought = (text: string): OutputPart => ({
  type: 'output',
  kind: 'reasoning',
  text,
  token_ids: [],
});
const called = (id: string, text: string, name = 'weather'): OutputPart => ({
  type: 'output',
  kind: 'tool_call',
  call: { id, name },
  text,
  token_ids: [],
});
const ended = (finish_reason: FinishReason, stop_sequence?: string): OutputPart => ({
  type: 'finish',
  finish_reason,
  usage: { input_tokens: 12, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 2 },
  ...(stop_sequence === undefined ? {} : { stop_sequence }),
});
async function failed(asked: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  try {
    await asked;
  } catch (error) {
    assert.instance(error, Anthropic.APIError);
    return error as InstanceType<typeof Anthropic.APIError>;
  }
  throw new Error('the request was answered');
}
const WEATHER = {
  name: 'weather',
  description: 'Tells the weather.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } },
};

test('a message is answered, and its run can be found', async ({ real, client }) => {
  const { data, response, request_id } = await client.messages.create(ASKED).withResponse();
  const id = response.headers.get('x-svc-run-id') ?? '';
  assert.is(data.id, id.replace('run_', 'msg_'));
  assert.is(request_id, id.replace('run_', 'req_'));
  assert.equal(
    [data.type, data.role, data.model, data.stop_reason, data.stop_sequence],
    ['message', 'assistant', 'local/svc-mini', 'end_turn', null],
  );
  assert.equal(data.content, [{ type: 'text', text: 'Hello you' }]);
  assert.equal([data.usage.input_tokens, data.usage.output_tokens], [1, 1]);
  const run = await real.runtime.runs.get(id);
  assert.is(run.asked_as, 'anthropic.messages');
  assert.is(run.prompt, 'Hi');
});

test('all parts of a conversation reach the model', async ({ real, client }) => {
  const sampling = { temperature: 0.5, top_p: 0.9 };
  await client.messages.create({
    ...sampling,
    model: 'local/svc-mini',
    max_tokens: 50,
    stop_sequences: ['END'],
    metadata: { user_id: 'u1' },
    service_tier: 'auto',
    system: [
      { type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Be kind.' },
    ],
    tools: [{ ...WEATHER, cache_control: { type: 'ephemeral' } }],
    tool_choice: { type: 'tool', name: 'weather' },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm', signature: 's' },
          { type: 'redacted_thinking', data: 'x' },
          { type: 'text', text: 'I ask.' },
          { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Oslo' } },
          { type: 'tool_use', id: 'c2', name: 'weather', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'rain' }] },
          { type: 'tool_result', tool_use_id: 'c2', content: 'no city', is_error: true },
          { type: 'text', text: 'And?' },
        ],
      },
    ],
  });
  const request = real.provider.asked[0]?.request;
  const text = (said: string) => ({ type: 'text', text: said });
  assert.equal(request?.messages, [
    { role: 'system', content: [text('Be short.'), text('Be kind.')] },
    {
      role: 'user',
      content: [text('Look'), { type: 'image', media_type: 'image/png', data: PNG }],
    },
    {
      role: 'assistant',
      content: [
        // Signed thoughts are for the provider that signed them.
        text('I ask.'),
        { type: 'tool_call', id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' },
        { type: 'tool_call', id: 'c2', name: 'weather', arguments: '{}' },
      ],
    },
    { role: 'tool', content: [{ type: 'tool_result', id: 'c1', text: 'rain', is_error: false }] },
    { role: 'tool', content: [{ type: 'tool_result', id: 'c2', text: 'no city', is_error: true }] },
    { role: 'user', content: [text('And?')] },
  ]);
  assert.equal(
    [request?.max_tokens, request?.temperature, request?.top_p, request?.stop],
    [50, 0.5, 0.9, ['END']],
  );
  assert.equal(request?.tool_choice, { name: 'weather' });
  const { name, description, input_schema } = WEATHER;
  assert.equal(request?.tools, [{ name, description, parameters: input_schema }]);
});

test('a stream has its events in order, and the helper puts them together', async ({
  real,
  client,
}) => {
  real.provider.script = [
    thought('First '),
    thought('think.'),
    output('Let me ', 1),
    output('see.', 2),
    called('c1', '{"city":'),
    called('c1', '"Oslo"}'),
    ended('tool_calls'),
  ];
  const events: string[] = [];
  const stream = client.messages.stream({ ...ASKED, tools: [WEATHER] });
  stream.on('streamEvent', (event) => {
    const { type } = event;
    const at = 'index' in event ? event.index : '';
    const what = event.type === 'content_block_delta' ? `:${event.delta.type}` : '';
    if (events.at(-1) !== `${type}${at}${what}`) events.push(`${type}${at}${what}`);
  });
  const message = await stream.finalMessage();
  assert.equal(events, [
    'message_start',
    'content_block_start0',
    'content_block_delta0:thinking_delta',
    'content_block_delta0:signature_delta',
    'content_block_stop0',
    'content_block_start1',
    'content_block_delta1:text_delta',
    'content_block_stop1',
    'content_block_start2',
    'content_block_delta2:input_json_delta',
    'content_block_stop2',
    'message_delta',
    'message_stop',
  ]);
  const [thinking, text, use] = message.content;
  assert.is(thinking?.type === 'thinking' && thinking.thinking, 'First think.');
  assert.is(text?.type === 'text' && text.text, 'Let me see.');
  assert.equal(use?.type === 'tool_use' && [use.id, use.name, use.input], [
    'c1',
    'weather',
    { city: 'Oslo' },
  ]);
  assert.is(message.stop_reason, 'tool_use');
  const { input_tokens, output_tokens, cache_read_input_tokens } = message.usage;
  assert.equal([input_tokens, output_tokens, cache_read_input_tokens], [8, 5, 4]);
  assert.equal(message.usage.output_tokens_details, { thinking_tokens: 2 });
});

test('tools make a round trip: the answer goes back as it came', async ({ real, client }) => {
  real.provider.script = ({ request }) =>
    request.messages.length === 1
      ? [thought('I need it.'), called('c1', '{"city":"Oslo"}'), ended('tool_calls')]
      : [output('It rains.', 1), ended('stop')];
  const first = await client.messages.create({ ...ASKED, tools: [WEATHER] });
  assert.is(first.stop_reason, 'tool_use');
  const use = first.content.find((block) => block.type === 'tool_use');
  assert.equal(use?.input, { city: 'Oslo' });
  const second = await client.messages.create({
    ...ASKED,
    tools: [WEATHER],
    messages: [
      ...ASKED.messages,
      { role: 'assistant', content: first.content },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: use?.id ?? '', content: 'rain' }],
      },
    ],
  });
  assert.equal(
    second.content.map((block) => block.type === 'text' && block.text),
    ['It rains.'],
  );
  assert.equal(
    real.provider.asked[1]?.request.messages.map(({ role, content }) => [
      role,
      content.map(({ type }) => type).join(' '),
    ]),
    [
      ['user', 'text'],
      ['assistant', 'reasoning tool_call'],
      ['tool', 'tool_result'],
    ],
  );
});

test('calls that are written at once are sent one after the other', async ({ real, client }) => {
  real.provider.script = [
    called('a', '{"city":'),
    called('b', '{"ci', 'snow'),
    called('a', '"Oslo"}'),
    called('b', 'ty":"Rome"}', 'snow'),
    ended('tool_calls'),
  ];
  const open: number[] = [];
  const stream = client.messages.stream({ ...ASKED, tools: [WEATHER] });
  for await (const event of stream) {
    if (event.type === 'content_block_start') open.push(event.index);
    if (event.type === 'content_block_delta') assert.equal(open, [event.index]);
    if (event.type === 'content_block_stop') assert.is(open.pop(), event.index);
  }
  const { content } = await stream.finalMessage();
  assert.equal(
    content.map((block) => block.type === 'tool_use' && [block.name, block.input]),
    [
      ['weather', { city: 'Oslo' }],
      ['snow', { city: 'Rome' }],
    ],
  );
});

test('the reason why an answer ended is said in the words of the API', async ({ real, client }) => {
  const refused: OutputPart = { type: 'output', kind: 'refusal', text: 'No.', token_ids: [] };
  const cases: [OutputPart[], string, string | null][] = [
    [[output('a', 1), ended('stop')], 'end_turn', null],
    [[output('a', 1), ended('stop', 'END')], 'stop_sequence', 'END'],
    [[output('a', 1), ended('length')], 'max_tokens', null],
    [[output('a', 1), ended('repetition')], 'max_tokens', null],
    [[called('c', '{}'), ended('stop')], 'tool_use', null],
    [[output('a', 1), ended('content_filter')], 'refusal', null],
    [[refused, ended('stop')], 'refusal', null],
  ];
  for (const [script, reason, sequence] of cases) {
    real.provider.script = script;
    const whole = await client.messages.create(ASKED);
    const streamed = await client.messages.stream(ASKED).finalMessage();
    for (const { stop_reason, stop_sequence, content } of [whole, streamed]) {
      assert.equal([stop_reason, stop_sequence], [reason, sequence]);
      assert.is(content.length, 1);
    }
  }
});

test('with thinking disabled the answer leaves it out, whole and streamed', async ({
  real,
  client,
}) => {
  real.provider.script = [thought('Hm'), output('Yes', 1), ended('stop')];
  const asked = { ...ASKED, thinking: { type: 'disabled' as const } };
  const whole = await client.messages.create(asked);
  const streamed = await client.messages.stream(asked).finalMessage();
  for (const { content } of [whole, streamed])
    assert.equal(
      content.map((block) => block.type),
      ['text'],
    );
});

test('what a run cannot do is refused by name, in the envelope of the API', async ({ real }) => {
  const long = { role: 'user', content: 'x' };
  const block = (value: object) => ({ messages: [{ role: 'user', content: [value] }] });
  const cases: [object, RegExp][] = [
    [{ max_tokens: undefined }, /max_tokens is missing/],
    [{ max_tokens: 0 }, /max_tokens must be/],
    [{ model: undefined }, /model is missing/],
    [{ top_k: -5 }, /^top_k must be/],
    [{ messages: [] }, /at least one message/],
    [{ messages: [{ role: 'robot', content: 'x' }] }, /messages\.0\.role must be user/],
    [
      {
        messages: [
          long,
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: 'c1', name: 'weather', input: {} }],
          },
        ],
      },
      /^messages must end with the results of the tool calls/,
    ],
    [{ system: [{ type: 'image' }] }, /system\.0\.type must be text/],
    [
      block({ type: 'image', source: { type: 'url', url: 'http://x/y.png' } }),
      /messages\.0\.content\.0\.source\.type must be base64: the daemon fetches no images/,
    ],
    [
      {
        system: 'moves every message by one place',
        ...block({
          type: 'image',
          source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
        }),
      },
      /^messages\.0\.content\.0 is no image\/png/,
    ],
    [block({ type: 'video', source: {} }), /messages\.0\.content\.0\.type must be text, image/],
    [
      block({ type: 'tool_result', tool_use_id: 'none', content: 'x' }),
      /messages\.0\.content\.0 answers the tool call "none"/,
    ],
    [
      { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }] },
      /tools\.0\.type must be custom or mcp_toolset/,
    ],
    [{ tools: [{ ...WEATHER, name: 'a b' }] }, /tools\.0\.name must have/],
    [{ tools: [WEATHER, WEATHER] }, /tools has weather twice/],
    [{ tool_choice: { type: 'any' } }, /tool_choice is required, but there are no tools/],
    [{ stop_sequences: [''] }, /stop_sequences\.0 must not be empty/],
    [{ mcp_servers: [{}] }, /mcp_servers\.0\.type is missing/],
  ];
  for (const [change, message] of cases) {
    const { status, json } = await real.get('/v1/messages', {
      method: 'POST',
      body: { ...ASKED, ...change },
    });
    assert.is(status, 400, message.source);
    assert.equal([json.type, json.error.type], ['error', 'invalid_request_error']);
    assert.match(json.error.message, message);
  }
  assert.is((await real.runtime.runs.list({})).runs.length, 0);
});

test('the errors of the client have its own classes', async ({ real, client }) => {
  const wrong = new Anthropic({ apiKey: 'wrong', baseURL: real.url, maxRetries: 0 });
  const unknown = await failed(wrong.messages.create(ASKED));
  assert.instance(unknown, Anthropic.AuthenticationError);
  assert.is(unknown.type, 'authentication_error');
  const fails: [SvcError, number, string][] = [
    [new SvcError('model_unknown'), 404, 'not_found_error'],
    [new SvcError('context_length_exceeded'), 400, 'invalid_request_error'],
    [new SvcError('provider_rejected'), 400, 'invalid_request_error'],
    [new SvcError('provider_failed', undefined, { retryable: false }), 502, 'api_error'],
  ];
  for (const [error, status, type] of fails) {
    real.provider.script = [error];
    for (const stream of [false, true]) {
      const seen = await failed(client.messages.create({ ...ASKED, stream }));
      assert.equal([seen.status, seen.type, seen.errorCode], [status, type, error.code]);
    }
  }
});

test('a run that fails in the middle of a stream ends it with an error', async ({
  real,
  client,
}) => {
  real.provider.script = [output('Half', 1), new SvcError('provider_rejected', 'It broke.')];
  const texts: string[] = [];
  const stream = client.messages.stream(ASKED).on('text', (text) => void texts.push(text));
  const error = await failed(stream.finalMessage());
  assert.is(error.type, 'invalid_request_error');
  assert.match(error.message, 'It broke.');
  assert.equal(texts, ['Half']);
});

test('a client that aborts cancels its run, streamed or not', async ({ real, client }) => {
  for (const stream of [true, false]) {
    const begun = gate();
    real.provider.script = (_, signal) => [
      output('a', 1),
      () => begun.open(),
      untilAborted(signal),
    ];
    const abort = new AbortController();
    const asked = client.messages
      .create({ ...ASKED, stream }, { signal: abort.signal })
      .then(async (answer) => {
        if (Symbol.asyncIterator in answer) for await (const _ of answer);
      })
      .catch((error) => assert.instance(error, Anthropic.APIUserAbortError));
    await begun.opened;
    abort.abort();
    await asked;
    const [{ id } = { id: '' }] = (await real.runtime.runs.list({})).runs;
    await waitFor(
      'the run is cancelled',
      async () => (await real.runtime.runs.get(id)).state === 'cancelled',
    );
    assert.is(real.provider.open, 0);
  }
});

test('tokens are counted without a run, if the provider can', async ({ real, client }) => {
  const asked = { model: ASKED.model, messages: ASKED.messages, tools: [WEATHER] };
  const refused = await failed(client.messages.countTokens(asked));
  assert.instance(refused, Anthropic.BadRequestError);
  assert.match(refused.message, 'cannot count the tokens');
  Object.assign(real.provider, {
    countTokens: async ({ messages, tools }: { messages: unknown[]; tools: unknown[] }) =>
      100 * messages.length + tools.length,
  });
  assert.equal(await client.messages.countTokens({ ...asked, system: 's' }), { input_tokens: 201 });
  assert.is((await real.runtime.runs.list({})).runs.length, 0);
});

test('models are listed and shown to the clients of this API', async ({ real, client }) => {
  const model = {
    id: 'local/a b',
    provider: 'local',
    name: 'a b',
    state: 'loaded',
    context_length: 4096,
    capabilities: ['chat'],
  };
  Object.assign(real.runtime.models, { list: async () => [model] });
  const page = await client.models.list();
  assert.equal(
    page.data.map(({ id, display_name, created_at }) => [id, display_name, created_at]),
    [['local/a b', 'a b', '1970-01-01T00:00:00.000Z']],
  );
  assert.not.ok(page.hasNextPage());
  const shown = await client.models.retrieve('local/a b');
  assert.is(shown.display_name, 'a b');
  for (const { capabilities, max_input_tokens, max_tokens } of [shown, ...page.data])
    assert.equal([capabilities, max_input_tokens, max_tokens], [null, 4096, null]);
  const other = await fetch(`${real.url}/v1/models/local%2Fa%20b`, { headers: BEARER });
  assert.equal(((await other.json()) as typeof model).capabilities, ['chat']);
});

test('a path without a route has the errors of the paths around it', async ({ real }) => {
  const errorAt = async (path: string, method = 'GET') =>
    (await real.get(path, { method })).json.error;
  for (const path of ['/v1/messages/batches', '/v1/messages'])
    assert.match((await errorAt(path)).details.error_code, /route_unknown|method_not_allowed/);
  assert.match(await errorAt('/api/nothing'), 'There is no route /api/nothing');
  assert.match(await errorAt('/api/chat'), 'does not take GET');
  assert.is((await errorAt('/v1/nothing')).code, 'route_unknown');
  assert.is((await errorAt('/nothing')).code, 'route_unknown');
});

test('very many messages and very deep values are refused in the envelope', async ({ real }) => {
  const post = (change: object) =>
    real.get('/v1/messages', { method: 'POST', body: { ...ASKED, ...change } });
  const turns = Array.from({ length: 5000 }, () => ({ role: 'user', content: 'x' }));
  const many = await post({ messages: turns });
  assert.is(many.status, 400);
  assert.match(many.json.error.message, 'messages has 5000 messages');
  const depth = 20_000;
  const deep = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":${'{"a":'.repeat(depth)}{}${'}'.repeat(depth)}}]}`;
  const nested = await real.get('/v1/messages', {
    method: 'POST',
    body: deep,
    headers: { 'content-type': 'application/json' },
  });
  assert.is(nested.status, 400);
  assert.match(nested.json.error.message, 'deeper than 128 levels');
  const large = await real.get('/v1/messages', {
    method: 'POST',
    body: { ...ASKED, system: 'x'.repeat(10 * 1024 * 1024) },
  });
  assert.is(large.status, 413);
  assert.is(large.json.error.type, 'request_too_large');
});

test.run();
