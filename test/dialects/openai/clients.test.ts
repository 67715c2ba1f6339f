import OpenAI, { type APIError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, gate, output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, errorOf, HI, hi, MODEL, think, weather } from './boot.ts';

/** The `openai` package against the real listener and runtime. */
const test = suite<{ real: Real; client: OpenAI }>('the openai package');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

test('a whole answer', async ({ real, client }) => {
  const { data, response } = await client.chat.completions.create(hi).withResponse();
  const { _request_id } = data as { _request_id?: string };
  assert.match(String(_request_id), /^req_/);
  assert.equal(data.choices, [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hello you', refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ] as never);
  assert.equal(
    [data.object, data.model, data.usage?.total_tokens, data.usage?.prompt_tokens],
    ['chat.completion', MODEL, 5, 3],
  );
  assert.is(data.usage?.prompt_tokens_details?.cached_tokens, 1);
  const run = String(response.headers.get('x-svc-run-id'));
  assert.is(data.id.replace('chatcmpl-', 'run_'), run);
  assert.is((await real.runtime.runs.get(run)).asked_as, 'openai.chat');
});

test('the iterator of a streamed answer', async ({ client }) => {
  const stream = await client.chat.completions.create({
    ...hi,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
  assert.is(deltas.map(({ content }) => content ?? '').join(''), 'Hello you');
  assert.is(deltas[0]?.role, 'assistant');
  assert.equal(deltas.at(-1), {});
  assert.equal([chunks.at(-1)?.choices, chunks.at(-1)?.usage?.total_tokens], [[], 5]);
  assert.is(new Set(chunks.map(({ id }) => id)).size, 1);
});

test('the helper for streams has the whole answer at its end', async ({ client }) => {
  const stream = client.chat.completions.stream({ ...hi, stream_options: { include_usage: true } });
  assert.is(await stream.finalContent(), 'Hello you');
  assert.is((await stream.totalUsage()).total_tokens, 5);
});

test('tool calls, whole and streamed, and their results', async ({ real, client }) => {
  const script = [
    think('hm'),
    call('a', '{"city":'),
    call('b', '{}'),
    call('a', '"Bern"}'),
    end('tool_calls'),
  ];
  real.provider.script = script;
  const whole = await client.chat.completions.create({ ...hi, tools: [weather] });
  const [choice] = whole.choices;
  const calls = [
    { id: 'a', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
    { id: 'b', type: 'function', function: { name: 'weather', arguments: '{}' } },
  ];
  assert.equal(choice?.message.tool_calls, calls as never);
  assert.equal([choice?.message.content, choice?.finish_reason], [null, 'tool_calls']);
  assert.is(
    (choice?.message as { reasoning_content?: string } | undefined)?.reasoning_content,
    'hm',
  );

  const stream = client.chat.completions.stream({ ...hi, tools: [weather] });
  const final = await stream.finalChatCompletion();
  const parsed = final.choices[0]?.message.tool_calls ?? [];
  assert.equal(
    parsed.map((each) => each.type === 'function' && [each.id, each.function.arguments]),
    calls.map(({ id, function: { arguments: written } }) => [id, written]),
  );

  real.provider.script = [output('Sunny.', 1), end()];
  const next = await client.chat.completions.create({
    model: MODEL,
    messages: [
      { role: 'developer', content: 'Be short.' },
      ...HI,
      choice?.message as never,
      { role: 'tool', tool_call_id: 'a', content: 'sun' },
      { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'rain' }] },
    ],
    tools: [weather],
    tool_choice: { type: 'function', function: { name: 'weather' } },
  });
  assert.is(next.choices[0]?.message.content, 'Sunny.');
  const { messages, tools, tool_choice } = asked(real);
  assert.equal(
    messages.map(({ role, content }) => [role, content.map(({ type }) => type).join(' ')]),
    [
      ['system', 'text'],
      ['user', 'text'],
      ['assistant', 'reasoning tool_call tool_call'],
      ['tool', 'tool_result'],
      ['tool', 'tool_result'],
    ],
  );
  assert.equal(tool_choice, { name: 'weather' });
  assert.equal(tools?.[0]?.parameters, weather.function.parameters);
});

test('the helper for tools calls the function and asks again', async ({ real, client }) => {
  real.provider.script = ({ request }) =>
    request.messages.some(({ role }) => role === 'tool')
      ? [output('It is sunny.', 1), end()]
      : [call('a', '{"city":"Bern"}'), end('tool_calls')];
  const cities: string[] = [];
  const runner = client.chat.completions.runTools({
    ...hi,
    tools: [
      {
        type: 'function',
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: ({ city }: { city: string }) => {
            cities.push(city);
            return 'sun';
          },
        },
      },
    ],
  });
  assert.is(await runner.finalContent(), 'It is sunny.');
  assert.equal(cities, ['Bern']);
});

test('an answer that has a schema is parsed', async ({ real, client }) => {
  real.provider.script = [output('{"city":"Bern"}', 1), end()];
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const parsed = await client.chat.completions.parse({
    ...hi,
    response_format: { type: 'json_schema', json_schema: { name: 'place', schema, strict: true } },
  });
  assert.equal(parsed.choices[0]?.message.parsed, { city: 'Bern' } as never);
  assert.equal(asked(real).response_format, { type: 'json', name: 'place', schema });
  await client.chat.completions.create({ ...hi, response_format: { type: 'json_object' } });
  assert.equal(asked(real).response_format, { type: 'json', name: null, schema: null });
  const named = { type: 'json', name: null, schema };
  for (const [field, format] of [
    [{ guided_json: schema }, named],
    [{ guided_json: JSON.stringify(schema) }, named],
    [{ json_schema: schema }, named],
    [{ structured_outputs: { json: schema, disable_any_whitespace: true } }, named],
    [{ structured_outputs: { json_object: true } }, { ...named, schema: null }],
  ] as const) {
    await client.chat.completions.create({ ...hi, ...(field as object) });
    assert.equal(asked(real).response_format, format, JSON.stringify(field));
  }
});

test('each parameter reaches the provider', async ({ real, client }) => {
  const ofNeighbours = { top_k: 5, min_p: 0.1, repeat_penalty: 1.2, dry_multiplier: 0.8 };
  await client.chat.completions.create({
    ...hi,
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 1,
    frequency_penalty: -1,
    seed: -1,
    max_completion_tokens: 7,
    stop: 'END',
    logprobs: true,
    top_logprobs: 2,
    n: 1,
    reasoning_effort: 'xhigh',
    parallel_tool_calls: false,
    verbosity: 'low',
    ...ofNeighbours,
    metadata: { team: 'a' },
    user: 'me',
    store: false,
    service_tier: 'auto',
  });
  const { temperature, top_p, presence_penalty, frequency_penalty, seed } = asked(real);
  assert.equal([temperature, top_p, presence_penalty, frequency_penalty], [0.5, 0.9, 1, -1]);
  const { max_tokens, stop, logprobs } = asked(real);
  assert.equal([seed, max_tokens, stop, logprobs], [2 ** 32 - 1, 7, ['END'], 2]);
  const { reasoning_effort, parallel_tool_calls, top_k, min_p, repeat_penalty } = asked(real);
  assert.equal([reasoning_effort, parallel_tool_calls], ['xhigh', false]);
  assert.is(asked(real).verbosity, 'low');
  assert.equal([top_k, min_p, repeat_penalty, asked(real)?.dry_multiplier], [5, 0.1, 1.2, 0.8]);
  const [run] = (await real.runtime.runs.list({})).runs;
  assert.equal(run?.metadata, { team: 'a' });
});

test('a budget of reasoning is asked for by all its names', async ({ real, client }) => {
  for (const more of [
    { reasoning_budget_tokens: 5 },
    { thinking_budget_tokens: 5 },
    { thinking_token_budget: 5 },
    { thinking_budget: 5 },
    { reasoning: { max_tokens: 5 } },
    { reasoning: { max_tokens: 5, effort: 'low' }, thinking_budget: 5 },
    { thinking_budget: -1 },
  ]) {
    const sent = { ...hi, ...(more as object) };
    await client.chat.completions.create(sent);
    const { reasoning_budget_tokens, reasoning_effort } = asked(real);
    const budget = more.thinking_budget === -1 ? undefined : 5;
    const effort = 'reasoning' in more ? more.reasoning?.effort : undefined;
    assert.equal([reasoning_budget_tokens, reasoning_effort], [budget, effort]);
    await client.responses.create({ model: hi.model, input: 'Hi', ...(more as object) });
    assert.is(asked(real).reasoning_budget_tokens, budget);
  }
});

test('a verbosity that the model cannot be asked for is named as ignored', async ({ client }) => {
  const ignored = async (verbosity: 'low' | 'medium' | 'high') => {
    const { response } = await client.chat.completions.create({ ...hi, verbosity }).withResponse();
    return response.headers.get('x-svc-ignored');
  };
  assert.is(await ignored('low'), 'verbosity');
  assert.is(await ignored('medium'), null, 'it is what any model does');
});

test('images travel as data', async ({ real, client }) => {
  const png = `data:image/png;base64,${Buffer.from('89504e470d0a1a0a0000', 'hex').toString('base64')}`;
  const ask = (url: string) =>
    client.chat.completions.create({
      model: MODEL,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url, detail: 'low' } },
          ],
        },
      ],
    });
  await ask(png);
  const [message] = asked(real).messages;
  assert.equal(
    message?.content.map(({ type }) => type),
    ['text', 'image'],
  );
  for (const url of [
    'https://example.org/a.png',
    'data:image/png,abc',
    'data:image/png;base64,YQ==',
  ])
    assert.match(
      ((await ask(url).catch((error: unknown) => error)) as APIError).param ?? '',
      /^messages\.0\.content\.1/,
    );
});

test('log probabilities, whole and streamed', async ({ real, client }) => {
  const top = [{ token: 'é', logprob: -0.1 }];
  const token = { token: 'é', logprob: -0.1, top };
  real.provider.script = [
    { type: 'output', text: 'é', token_ids: [1], logprobs: [token] },
    { type: 'output', text: 'é', token_ids: [1], logprobs: [token] },
    end(),
  ];
  const wanted = { ...hi, logprobs: true, top_logprobs: 1 } as const;
  const whole = await client.chat.completions.create(wanted);
  const one = { token: 'é', logprob: -0.1, bytes: [195, 169] };
  const both = [
    { ...one, top_logprobs: [one] },
    { ...one, top_logprobs: [one] },
  ];
  assert.equal(whole.choices[0]?.logprobs?.content, both);
  const final = await client.chat.completions.stream(wanted).finalChatCompletion();
  assert.equal(final.choices[0]?.logprobs?.content, both);
});

test('a refusal', async ({ real, client }) => {
  real.provider.script = [{ type: 'output', kind: 'refusal', text: 'No.', token_ids: [] }, end()];
  const { choices } = await client.chat.completions.create(hi);
  assert.equal([choices[0]?.message.content, choices[0]?.message.refusal], [null, 'No.']);
  const final = await client.chat.completions.stream(hi).finalChatCompletion();
  assert.is(final.choices[0]?.message.refusal, 'No.');
});

test('the first chunk begins a text only before one', async ({ real }) => {
  const first = async (script: object[]) => {
    real.provider.script = script as never;
    const body = { ...hi, stream: true };
    const { text } = await real.get('/v1/chat/completions', { method: 'POST', body });
    return JSON.parse(text.split('\n\n')[0]?.slice('data: '.length) ?? '').choices[0].delta;
  };
  const role = 'assistant';
  assert.equal(await first([output('Hi', 1), end()]), { role, content: '' });
  assert.equal(await first([end()]), { role, content: '' });
  assert.equal(await first([call('a', '{}'), end('tool_calls')]), { role, content: null });
  assert.equal(await first([think('hm'), output('Hi', 1), end()]), { role, content: null });
});

test('completions, whole and streamed', async ({ real, client }) => {
  const whole = await client.completions.create({ model: MODEL, prompt: ['Once'], stop: ['.'] });
  assert.equal(
    [whole.choices[0]?.text, whole.choices[0]?.finish_reason, whole.usage?.total_tokens],
    ['Hello you', 'stop', 5],
  );
  assert.equal([asked(real).stop, asked(real).max_tokens], [['.'], 16], "as OpenAI's");
  assert.not.ok(asked(real).raw, 'the built-in model only answers messages');
  await client.completions.create({ model: 'local/base', prompt: 'Once' });
  assert.is(asked(real).raw, true);
  let text = '';
  const stream = await client.completions.create({ model: MODEL, prompt: 'Once', stream: true });
  for await (const chunk of stream) text += chunk.choices[0]?.text;
  assert.is(text, 'Hello you');
  await client.completions.create({ model: MODEL, prompt: 'Once', max_tokens: 99 });
  assert.is(asked(real).max_tokens, 99);
  await client.completions.create({ model: MODEL, prompt: 'Once', max_tokens: -1 });
  assert.is(asked(real).max_tokens, 1_048_576, 'no bound but the context');
  await client.chat.completions.create({ ...hi, max_tokens: -1 });
  assert.is(asked(real).max_tokens, 1_048_576);
  const echo = await client.completions.create({ model: MODEL, prompt: 'Once', echo: true });
  assert.is(echo.choices[0]?.text, 'OnceHello you');
  let echoed = '';
  const both = { model: MODEL, prompt: 'Once', echo: true, stream: true } as const;
  for await (const chunk of await client.completions.create(both)) echoed += chunk.choices[0]?.text;
  assert.is(echoed, 'OnceHello you');
  const asksBefore = real.provider.asked.length;
  const none = { model: MODEL, prompt: 'Once', max_tokens: 0 };
  for (const [more, text] of [
    [{}, ''],
    [{ echo: true, n: 2 }, 'Once'],
  ] as const) {
    const { choices, usage } = await client.completions.create({ ...none, ...more });
    assert.equal(
      choices.map(({ text, finish_reason }) => [text, finish_reason]),
      Array(choices.length).fill([text, 'length']),
    );
    assert.is(choices.length, 'n' in more ? 2 : 1);
    assert.is(usage, undefined, 'the provider counts no tokens of a prompt');
  }
  assert.is(real.provider.asked.length, asksBefore, 'an answer of no tokens asks no model');
  for (const wrong of [{ stream: true, max_tokens: 0 }, { logprobs: 99 }]) {
    const body = { model: MODEL, prompt: 'Once', ...wrong };
    const error = await client.completions.create(body).catch((thrown: unknown) => thrown);
    assert.instance(error, OpenAI.BadRequestError);
    assert.is((error as APIError).param, Object.keys(wrong)[0]);
  }
});

test('the models, with ids that have a slash', async ({ real, client }) => {
  const model = { id: 'local/svc-mini', provider: 'local', name: 'svc-mini' };
  real.provider.models = () => Promise.resolve([model as never]);
  real.config.aliases = { 'gpt-4o': 'local/svc-mini' };
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  assert.equal(ids, ['local/svc-mini', 'gpt-4o']);
  assert.is((await client.models.retrieve('local/svc-mini')).owned_by, 'local');
  assert.is((await client.models.retrieve('gpt-4o')).id, 'gpt-4o');
  const plain = await real.get('/v1/models/local/svc-mini');
  assert.equal([plain.status, plain.json.id], [200, 'local/svc-mini']);
  assert.is((await real.get('/v1/models/svc-mini')).json.id, 'local/svc-mini');
  const error = await client.models.retrieve('no/such').catch((thrown: unknown) => thrown);
  assert.instance(error, OpenAI.NotFoundError);
});

test('an alias is a model', async ({ real, client }) => {
  real.config.aliases = { 'gpt-4o': 'local/svc-mini' };
  const { model } = await client.chat.completions.create({ ...hi, model: 'gpt-4o' });
  assert.equal([model, asked(real).model], ['local/svc-mini', 'svc-mini']);
});

test('an abort cancels the run', async ({ real, client }) => {
  real.provider.script = (_, signal) => [output('a', 1), untilAborted(signal)];
  const stream = await client.chat.completions.create({ ...hi, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content === 'a') break;
  const cancelled = async () =>
    (await real.runtime.runs.list({})).runs.filter(({ state }) => state === 'cancelled').length;
  await waitFor('the streamed run is cancelled', async () => (await cancelled()) === 1);

  const leave = new AbortController();
  const whole = client.chat.completions.create(hi, { signal: leave.signal });
  await waitFor('it runs', () => real.provider.open === 1);
  leave.abort();
  assert.instance(await whole.catch((error: unknown) => error), OpenAI.APIUserAbortError);
  await waitFor('the other run is cancelled', async () => (await cancelled()) === 2);
});

test('the same idempotency key gives the same answer', async ({ real, client }) => {
  const options = { headers: { 'Idempotency-Key': 'order-7' } };
  const first = await client.chat.completions.create(hi, options);
  const again = await client.chat.completions.create(hi, options);
  assert.equal([again.id, again.choices], [first.id, first.choices] as never);
  assert.is(real.provider.asked.length, 1);
  const other = client.chat.completions.create({ ...hi, seed: 1 }, options);
  assert.equal((await errorOf(other)).slice(0, 2), [422, 'idempotency_conflict']);
  const headers = { 'Idempotency-Key': 'order-7' };
  const { model, messages } = hi;
  for (const [path, body] of [
    ['/v1/completions', { model, prompt: 'Hi' }],
    ['/v1/responses', { model, input: 'Hi' }],
    ['/v1/messages', { model, messages, max_tokens: 9 }],
    ['/api/chat', { model, messages }],
    ['/v1/runs', { model, messages }],
  ] as const) {
    const refused = await real.get(path, { method: 'POST', body, headers });
    assert.equal([refused.status, refused.headers['x-svc-error']], [422, 'idempotency_conflict']);
  }
  assert.is(real.provider.asked.length, 1);
});

test('the bytes of a stream are those that clients need', async ({ real }) => {
  // What waits together is one piece, so the last one comes when the others are recorded.
  const recorded = () =>
    waitFor('both calls are recorded', async () => {
      const [run] = (await real.runtime.runs.list({})).runs;
      return run?.output_parts?.length === 4;
    });
  real.provider.script = [
    think('t'),
    output('x', 1),
    call('a', '{'),
    call('b', ''),
    async () => void (await recorded()),
    call('a', '}'),
    end(),
  ];
  const { text, headers } = await real.get('/v1/chat/completions', {
    method: 'POST',
    body: { ...hi, stream: true, stream_options: { include_usage: true } },
  });
  assert.is(headers['content-type'], 'text/event-stream');
  const frames = text.split('\n\n');
  assert.equal(frames.slice(-2), ['data: [DONE]', '']);
  const chunks = frames.slice(0, -2).map((frame) => JSON.parse(frame.slice('data: '.length)));
  for (const chunk of chunks) assert.is(chunk.object, 'chat.completion.chunk');
  const choices = chunks.slice(0, -1).map(({ choices: [choice] }) => choice);
  assert.equal(
    choices.map(({ delta }) => delta),
    [
      { role: 'assistant', content: null },
      { reasoning_content: 't' },
      { content: 'x' },
      {
        tool_calls: [
          { index: 0, id: 'a', type: 'function', function: { name: 'weather', arguments: '{' } },
        ],
      },
      {
        tool_calls: [
          { index: 1, id: 'b', type: 'function', function: { name: 'weather', arguments: '' } },
        ],
      },
      { tool_calls: [{ index: 0, function: { arguments: '}' } }] },
      {},
    ],
  );
  assert.equal(
    choices.map(({ index, finish_reason }) => `${index} ${finish_reason}`),
    [...Array(6).fill('0 null'), '0 tool_calls'],
  );
});

test('a stream continues for the client that the queue makes wait', async ({ real, client }) => {
  const { opened, open } = gate();
  real.provider.script = [() => opened, output('late', 1), finish()];
  const streaming = client.chat.completions.create({ ...hi, stream: true });
  await waitFor('it runs', () => real.provider.open === 1);
  open();
  let text = '';
  for await (const chunk of await streaming) text += chunk.choices[0]?.delta.content ?? '';
  assert.is(text, 'late');
});

test.run();
