import type OpenAI from 'openai';
import type { ResponseInputItem, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { gate, output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, errorOf, MODEL, think } from './boot.ts';

const test = suite<{ real: Real; client: OpenAI }>('the Responses API');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const PNG = 'data:image/png;base64,iVBORw0KGgoAAAAN';
const weather = {
  type: 'function' as const,
  name: 'weather',
  description: 'Says the weather.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: true,
};
const list = async (events: AsyncIterable<ResponseStreamEvent>) => {
  const all: ResponseStreamEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
};
const runOf = (id: string) => id.replace('resp_', 'run_');

test('an input is answered, and its response is kept', async ({ real, client }) => {
  const { data: response, response: http } = await client.responses
    .create({
      model: MODEL,
      input: 'Hi',
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      max_output_tokens: 99,
      temperature: 0.5,
      top_p: 0.9,
    })
    .withResponse();
  assert.is(response.output_text, 'Hello you');
  assert.is(response.status, 'completed');
  assert.is(response.instructions, 'Be brief.');
  assert.equal(response.metadata, { a: 'b' });
  assert.equal(response.usage?.total_tokens, 5);
  assert.is(response.usage?.input_tokens_details?.cached_tokens, 1);
  assert.is(http.headers.get('x-svc-run-id'), runOf(response.id));
  const { messages, max_tokens, temperature, top_p } = asked(real);
  assert.equal(
    messages.map(({ role }) => role),
    ['system', 'user'],
  );
  assert.equal([max_tokens, temperature, top_p], [99, 0.5, 0.9]);
  const again = await client.responses.retrieve(response.id);
  assert.equal(again, response);
  const run = await real.runtime.runs.get(runOf(response.id));
  assert.is(run.asked_as, 'openai.responses');
  assert.is(run.recovery, 'resume');
});

test('effort, verbosity and a single call at most are asked, and shown', async ({
  real,
  client,
}) => {
  const response = await client.responses.create({
    model: MODEL,
    input: 'Hi',
    tools: [weather],
    parallel_tool_calls: false,
    reasoning: { effort: 'low' },
    text: { verbosity: 'high' },
  });
  const { reasoning_effort, parallel_tool_calls, verbosity } = asked(real);
  assert.equal([reasoning_effort, parallel_tool_calls, verbosity], ['low', false, 'high']);
  assert.is(response.text?.verbosity, 'high');
  assert.equal([response.reasoning?.effort, response.parallel_tool_calls], ['low', false]);
  const run = await real.runtime.runs.get(runOf(response.id));
  assert.equal([run.reasoning_effort, run.parallel_tool_calls], ['low', false]);
});

test('the stream helper of the client builds the same response', async ({ client }) => {
  const stream = client.responses.stream({ model: MODEL, input: 'Hi' });
  let text = '';
  stream.on('response.output_text.delta', ({ delta }) => {
    text += delta;
  });
  const response = await stream.finalResponse();
  assert.is(text, 'Hello you');
  assert.is(response.output_text, 'Hello you');
  const { output_text, ...kept } = await client.responses.retrieve(response.id);
  assert.is(output_text, 'Hello you');
  assert.equal(kept.output, JSON.parse(JSON.stringify(response.output, withoutParsed)));
});

test('reasoning is a summary, also in a stream that is resumed inside of it', async ({
  real,
  client,
}) => {
  real.provider.script = [think('Hm.'), output('Sure.', 1), end()];
  const events = await list(
    await client.responses.create({ model: MODEL, input: 'Hi', stream: true }),
  );
  const about = events.filter(({ type }) => type.startsWith('response.reasoning'));
  assert.equal(
    about.map(({ type }) => type.replace('response.reasoning_summary_', '')),
    ['part.added', 'text.delta', 'text.done', 'part.done'],
  );
  const last = events.at(-1);
  const response = last?.type === 'response.completed' ? last.response : null;
  const [reasoning, message] = response?.output ?? [];
  assert.equal(reasoning?.type === 'reasoning' && reasoning.summary, [
    { type: 'summary_text', text: 'Hm.' },
  ]);
  assert.is(message?.type, 'message');
  const delta = about[1]?.sequence_number ?? 0;
  const rest = await client.responses.retrieve(response?.id ?? '', {
    stream: true,
    starting_after: delta - 1,
  });
  assert.equal(await list(rest), events.slice(delta));
});

const withoutParsed = (key: string, value: unknown) => (key === 'parsed' ? undefined : value);

test('a tool is called, and its result continues the conversation', async ({ real, client }) => {
  real.provider.script = ({ request }: AttemptRequest) =>
    request.messages.at(-1)?.role === 'tool'
      ? [output('Sunny.', 1), end()]
      : [think('I ask.'), call('c1', '{"city":'), call('c1', '"Bonn"}'), end('tool_calls')];
  const first = await client.responses.create({
    model: MODEL,
    input: 'Weather in Bonn?',
    tools: [weather],
    tool_choice: 'required',
  });
  const [reasoning, called] = first.output;
  assert.is(reasoning?.type, 'reasoning');
  assert.equal(called?.type === 'function_call' && [called.call_id, called.arguments], [
    'c1',
    '{"city":"Bonn"}',
  ]);
  assert.equal(first.tools, [weather]);
  const result = { type: 'function_call_output' as const, call_id: 'c1', output: '21 C' };
  const second = await client.responses.create({
    model: MODEL,
    tools: [weather],
    previous_response_id: first.id,
    input: [result],
  });
  assert.is(second.output_text, 'Sunny.');
  assert.is(second.previous_response_id, first.id);
  const roles = () => asked(real).messages.map(({ role }) => role);
  assert.equal(roles(), ['user', 'assistant', 'tool']);
  const echoed = await client.responses.create({
    model: MODEL,
    tools: [weather],
    input: [
      { role: 'user', content: 'Weather?' },
      ...(first.output as ResponseInputItem[]),
      result,
    ],
  });
  assert.is(echoed.output_text, 'Sunny.');
  assert.equal(roles(), ['user', 'assistant', 'tool']);
  assert.equal(
    asked(real).messages[1]?.content.map(({ type }) => type),
    ['reasoning', 'tool_call'],
  );
  const referred = await client.responses.create({
    model: MODEL,
    tools: [weather],
    input: [
      { role: 'user', content: 'Weather?' },
      ...first.output.map(({ id }) => ({ type: 'item_reference' as const, id: id ?? '' })),
      result,
    ],
  });
  assert.is(referred.output_text, 'Sunny.');
  assert.equal(roles(), ['user', 'assistant', 'tool']);
});

test('a streamed tool call and its arguments are what the client assembles', async ({
  real,
  client,
}) => {
  real.provider.script = [call('a', '{"x"'), call('b', '{}'), call('a', ':1}'), end('tool_calls')];
  const stream = client.responses.stream({ model: MODEL, input: 'Go', tools: [weather] });
  const { output: items } = await stream.finalResponse();
  const calls = items.map(
    (item) => item.type === 'function_call' && [item.call_id, item.arguments],
  );
  assert.equal(calls, [
    ['a', '{"x":1}'],
    ['b', '{}'],
  ]);
});

test('a response continues an earlier one without its instructions', async ({ real, client }) => {
  const first = await client.responses.create({
    model: MODEL,
    instructions: 'Old.',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is it?' },
          { type: 'input_image', image_url: PNG, detail: 'auto' },
        ],
      },
    ],
  });
  const second = await client.responses.create({
    model: MODEL,
    instructions: 'New.',
    previous_response_id: first.id,
    input: 'And now?',
  });
  const { messages } = asked(real);
  assert.equal(
    messages.map(({ role }) => role),
    ['system', 'user', 'assistant', 'user'],
  );
  assert.equal(messages[0]?.content, [{ type: 'text', text: 'New.' }]);
  assert.is(messages[1]?.content[1]?.type, 'image');
  assert.equal(messages[2]?.content, [{ type: 'text', text: 'Hello you' }]);
  const items = await client.responses.inputItems.list(second.id);
  assert.equal(
    items.data.map((item) => 'content' in item && item.content),
    [[{ type: 'input_text', text: 'And now?' }]],
  );
  const { data } = await client.responses.inputItems.list(first.id, { order: 'asc', limit: 1 });
  const content = (data[0] as { content: { image_url?: string }[] }).content;
  assert.is(content[1]?.image_url, PNG);
});

test('a background response is followed, resumed by number, cancelled and deleted', async ({
  real,
  client,
}) => {
  const { opened, open } = gate();
  real.provider.script = (_, signal) => [
    output('one ', 1),
    () => opened,
    output('two', 2),
    untilAborted(signal),
    end(),
  ];
  const started = await client.responses.create({ model: MODEL, input: 'Go', background: true });
  assert.ok(started.status === 'queued' || started.status === 'in_progress');
  assert.is(started.background, true);
  await waitFor('the first text', async () => {
    const now = await client.responses.retrieve(started.id);
    return now.output_text === 'one ';
  });
  const first = await client.responses.retrieve(started.id, { stream: true });
  const heard: ResponseStreamEvent[] = [];
  for await (const event of first) {
    heard.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  const last = heard.at(-1)?.sequence_number ?? -1;
  const after = (starting_after: number) =>
    client.responses.retrieve(started.id, { stream: true, starting_after }).then(list);
  assert.equal(await errorOf(after(last + 1)), [400, 'invalid_request', 'starting_after']);
  open();
  await waitFor('the second text', async () => {
    const now = await client.responses.retrieve(started.id);
    return now.output_text === 'one two';
  });
  assert.equal(await errorOf(client.responses.delete(started.id)), [409, 'run_unfinished', null]);
  const following = after(last);
  const cancelled = await client.responses.cancel(started.id);
  assert.is(cancelled.status, 'cancelled');
  const rest = await following;
  const numbers = [...heard, ...rest].map((event) => event.sequence_number);
  assert.equal(
    numbers,
    numbers.map((_, index) => index),
  );
  assert.is(rest.at(-1)?.type, 'response.failed');
  assert.equal((await client.responses.cancel(started.id)).status, 'cancelled');
  const whole = await list(await client.responses.retrieve(started.id, { stream: true }));
  assert.equal(whole, [...heard, ...rest]);
  const final = whole.length - 1;
  assert.equal(await after(final - 1), whole.slice(-1));
  assert.equal(await after(final), [], 'the client has them all');
  assert.equal(await errorOf(after(final + 1)), [400, 'invalid_request', 'starting_after']);
  await client.responses.delete(started.id);
  assert.equal((await errorOf(client.responses.retrieve(started.id))).slice(0, 2), [
    404,
    'run_unknown',
  ]);
  assert.ok((await real.store.verify()).ok);
});

test('a response is cancelled when its connection closes, unless it is in the background', async ({
  real,
  client,
}) => {
  real.provider.script = (_, signal) => [output('one ', 1), untilAborted(signal), end()];
  const ids: string[] = [];
  for (const background of [false, true]) {
    const stream = await client.responses.create({
      model: MODEL,
      input: 'Go',
      background,
      stream: true,
    });
    for await (const event of stream) {
      if (event.type === 'response.created') ids.push(event.response.id);
      if (event.type === 'response.output_text.delta') break;
    }
  }
  const [left = '', kept = ''] = ids;
  await waitFor('the first is cancelled', async () => {
    const now = await client.responses.retrieve(left);
    return now.status === 'cancelled';
  });
  assert.is((await client.responses.retrieve(kept)).status, 'in_progress');
  assert.equal((await errorOf(client.responses.cancel(left))).slice(0, 1), [400]);
  await client.responses.cancel(kept);
});

test('a response that fails is an error, and a stream of it ends with it', async ({
  real,
  client,
}) => {
  real.provider.script = [output('one ', 1), new Error('broken')];
  const ask = { model: MODEL, input: 'Go' };
  const [status, code] = await errorOf(client.responses.create(ask));
  assert.equal([status, code], [502, 'provider_failed']);
  const events = await list(await client.responses.create({ ...ask, stream: true }));
  const last = events.at(-1);
  assert.is(last?.type === 'response.failed' && last.response.error?.code, 'provider_failed');
});

test('one idempotency key is one response', async ({ client }) => {
  const ask = () =>
    client.responses.create(
      { model: MODEL, input: 'Hi' },
      { headers: { 'Idempotency-Key': 'k1' } },
    );
  assert.is((await ask()).id, (await ask()).id);
  const other = client.responses.create(
    { model: MODEL, input: 'Other' },
    { headers: { 'Idempotency-Key': 'k1' } },
  );
  assert.equal((await errorOf(other)).slice(0, 2), [422, 'idempotency_conflict']);
});

test('JSON answers and probabilities are asked for, and reported', async ({ real, client }) => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  const top = [{ token: '{}', logprob: -0.5 }];
  real.provider.script = [
    { type: 'output', text: '{}', token_ids: [1], logprobs: [{ token: '{}', logprob: -0.5, top }] },
    end('length'),
  ];
  const response = await client.responses.create({
    model: MODEL,
    input: 'Hi',
    include: ['message.output_text.logprobs'],
    top_logprobs: 1,
    text: { format: { type: 'json_schema', name: 'n', schema, strict: true } },
  });
  assert.equal(asked(real).response_format, { type: 'json', name: 'n', schema });
  assert.is(asked(real).logprobs, 1);
  assert.is(response.status, 'incomplete');
  assert.equal(response.incomplete_details, { reason: 'max_output_tokens' });
  const [item] = response.output;
  const [part] = item?.type === 'message' ? item.content : [];
  assert.equal(part?.type === 'output_text' && part.logprobs?.[0]?.top_logprobs.length, 1);
});

test('a response without store is answered, and no later request finds it', async ({ client }) => {
  const made = await client.responses.create({ model: MODEL, input: 'Hi', store: false });
  assert.equal([made.status, (made as { store?: boolean }).store], ['completed', false]);
  const [status, code] = await errorOf(client.responses.retrieve(made.id));
  assert.equal([status, code], [404, 'run_unknown']);
  const again = { model: MODEL, input: 'And?', previous_response_id: made.id };
  assert.equal(await errorOf(client.responses.create(again)), [
    400,
    'previous_response_not_found',
    'previous_response_id',
  ]);
});

test('what svc cannot do is refused with the name of the parameter', async ({ client }) => {
  const refused = async (more: object) => {
    const [status, , param] = await errorOf(
      client.responses.create({ model: MODEL, input: 'Hi', ...more } as never),
    );
    assert.is(status, 400, JSON.stringify(more));
    return param;
  };
  const user = (content: object) => ({ input: [{ role: 'user', content: [content] }] });
  const image = (image_url: string) => user({ type: 'input_image', image_url });
  const cases: [object, string][] = [
    [{ store: false, background: true }, 'store'],
    [{ reasoning: { effort: 'highest' } }, 'reasoning.effort'],
    [{ truncation: 'auto' }, 'truncation'],
    [{ prompt: { id: 'p' } }, 'prompt'],
    [{ text: { verbosity: 'long' } }, 'text.verbosity'],
    [{ tools: [weather], parallel_tool_calls: 'no' }, 'parallel_tool_calls'],
    [{ tool_choice: { type: 'web_search_preview' } }, 'tool_choice.type'],
    [{ tools: [{ type: 'web_search' }], tool_choice: 'required' }, 'tool_choice'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ previous_response_id: 'resp_x' }, 'previous_response_id'],
    [{ previous_response_id: `resp_${'0'.repeat(26)}` }, 'previous_response_id'],
    [{ input: [] }, 'input'],
    [{ input: 3 }, 'input'],
    [{ input: [{ type: 'computer_call' }] }, 'input.0.type'],
    [{ input: [{ type: 'item_reference', id: 'msg_x' }] }, 'input.0.id'],
    [{ input: [{ type: 'function_call_output', call_id: 'c', output: '' }] }, 'input.0.call_id'],
    [image('https://example.com/a.png'), 'input.0.content.0.image_url'],
    [image('data:image/png;base64,aGVsbG8='), 'input'],
    [{ tool_choice: { type: 'function', name: 'f' } }, 'tool_choice'],
  ];
  for (const [more, param] of cases) assert.is(await refused(more), param, JSON.stringify(more));
});

test('ids of other runs and of nothing are unknown', async ({ real, client }) => {
  const { id } = await real.runtime.runs.start({ prompt: 'Hi' }, 'test');
  for (const one of [id, id.replace('run_', 'resp_'), 'resp_x', `resp_${'0'.repeat(26)}`])
    for (const ask of ['retrieve', 'cancel', 'delete'] as const)
      assert.is((await errorOf(client.responses[ask](one) as Promise<unknown>))[0], 404, one);
});

test('a daemon that stops says so, with a number that the client continues after', async ({
  real,
  client,
}) => {
  real.provider.script = (_, signal) => [output('one ', 1), untilAborted(signal), end()];
  const stream = await client.responses.create({
    model: MODEL,
    input: 'Go',
    background: true,
    stream: true,
  });
  let last = -1;
  let closed: Promise<unknown> | null = null;
  const thrown = await (async () => {
    for await (const event of stream) {
      last = event.sequence_number;
      if (event.type === 'response.output_text.delta') closed ??= real.http.close();
    }
  })().catch((error: unknown) => error);
  const { code, error } = thrown as { code: string; error: { sequence_number: number } };
  assert.is(code, 'daemon_stopping');
  assert.is(error.sequence_number, last);
  await closed;
});

test('too much is refused: messages, bytes and nesting', async ({ real, client }) => {
  const { run_messages, body_bytes } = real.config.limits;
  const refused = (input: unknown) =>
    errorOf(client.responses.create({ model: MODEL, input } as never));
  const many = Array.from({ length: run_messages + 1 }, () => ({ role: 'user', content: 'x' }));
  assert.equal((await refused(many)).slice(0, 3), [400, 'invalid_request', 'input']);
  assert.is((await refused('x'.repeat(body_bytes + 1)))[0], 413);
  let deep: unknown = {};
  for (let depth = 0; depth < 500; depth += 1) deep = { deep };
  const tools = [{ ...weather, parameters: deep }];
  const [status] = await errorOf(
    client.responses.create({ model: MODEL, input: 'Hi', tools } as never),
  );
  assert.is(status, 400);
  assert.is((await client.responses.create({ model: MODEL, input: 'Hi' })).status, 'completed');
});

test('what has no effect is accepted', async ({ client }) => {
  const response = await client.responses.create({
    model: MODEL,
    input: 'Hi',
    store: true,
    user: 'u',
    service_tier: 'auto',
    truncation: 'disabled',
    parallel_tool_calls: true,
    reasoning: { summary: 'auto' },
    prompt_cache_key: 'k',
    safety_identifier: 's',
    include: ['reasoning.encrypted_content'],
  });
  assert.is(response.status, 'completed');
});

test.run();
