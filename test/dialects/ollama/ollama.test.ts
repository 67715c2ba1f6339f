import { Ollama } from 'ollama';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../../src/contract/model-record.ts';
import { SvcError } from '../../../src/errors.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { finish, gate, output, untilAborted } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

const test = suite<{ real: Real; client: Ollama }>("programs for Ollama's API");

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('Hello', 1), output(' you', 2), finish()] });
  context.real.provider.models = async () => [MODEL, { ...MODEL, ...BROKEN }];
  context.client = new Ollama({ host: context.real.url, headers: BEARER });
});
test.after.each(({ real }) => real.close());

const MODEL: ModelRecord = {
  id: 'local/svc-mini',
  provider: 'local',
  name: 'svc-mini',
  state: 'loaded',
  size_bytes: 1234,
  digest: `sha256:${'ab'.repeat(32)}`,
  architecture: 'qwen2',
  quantization: 'Q4_K_M',
  parameters: 7_615_000_000,
  context_length: 4096,
  capabilities: ['chat', 'completion'],
  default: true,
  built_in: true,
  path: '/secret/svc-mini.gguf',
  modified_at: '2026-01-02T03:04:05.000Z',
};
const BROKEN = { id: 'local/broken', name: 'broken', state: 'invalid' } as const;
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WEATHER = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Reports the weather.',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
};
const model = 'svc-mini:latest';
const messages = [{ role: 'user', content: 'Hi' }];
const thought = (text: string): OutputPart => ({
  type: 'output',
  kind: 'reasoning',
  text,
  token_ids: [],
});
const called = (id: string, text: string): OutputPart => ({
  type: 'output',
  kind: 'tool_call',
  call: { id, name: 'weather' },
  text,
  token_ids: [],
});

async function failed(asked: Promise<unknown>): Promise<{ message: string; status_code: number }> {
  try {
    await asked;
  } catch (error) {
    return error as { message: string; status_code: number };
  }
  throw new Error('the request was answered');
}

test('a conversation is answered whole, with its counts and durations', async ({
  real,
  client,
}) => {
  const answer = await client.chat({ model, messages });
  assert.equal(
    [answer.model, answer.done, answer.done_reason, answer.message],
    [model, true, 'stop', { role: 'assistant', content: 'Hello you' }],
  );
  assert.equal([answer.prompt_eval_count, answer.eval_count], [1, 1]);
  for (const duration of [answer.total_duration, answer.load_duration])
    assert.type(duration, 'number');
  // One token has no speed, and clients divide by this time.
  assert.is(answer.eval_duration, undefined);
  assert.ok(Date.parse(String(answer.created_at)) > 0);
  const [run] = (await real.runtime.runs.list({})).runs;
  assert.equal([run?.model, run?.asked_as, run?.prompt], ['svc-mini', 'ollama.chat', 'Hi']);
});

test('the tokens by their duration are the speed that the run has', async ({ real, client }) => {
  const usage = { input_tokens: 7, output_tokens: 53 };
  const end = { type: 'finish', finish_reason: 'stop', usage, tokens_per_second: 42.4 } as const;
  real.provider.script = [output('Hello', 1), end];
  const { eval_count, eval_duration } = await client.chat({ model, messages });
  assert.equal([eval_count, eval_duration], [53, 1.25e9]);
  const [run] = (await real.runtime.runs.list({})).runs;
  assert.is(run?.tokens_per_second, 42.4);
});

test('the load of a model is in its duration', async ({ real, client }) => {
  real.provider.script = [output('Hello', 1), { ...finish(), load_ms: 5000 } as OutputPart];
  const { load_duration } = await client.chat({ model, messages });
  assert.ok(load_duration >= 5e9, String(load_duration));
});

test('a stream has a line for each piece, and ends with done', async ({ real, client }) => {
  real.provider.script = [thought('Hm'), output('Hello', 1), finish()];
  const lines = [];
  for await (const line of await client.chat({ model, messages, stream: true, think: true }))
    lines.push(line);
  assert.equal(
    lines.map(({ message, done }) => [message.thinking ?? message.content, done]),
    [
      ['Hm', false],
      ['Hello', false],
      ['', true],
    ],
  );
  assert.is(lines.at(-1)?.eval_count, 1);
  const { headers, text } = await real.get('/api/chat', {
    method: 'POST',
    body: { model, messages, think: false },
  });
  assert.is(headers['content-type'], 'application/x-ndjson');
  assert.not.match(text, 'Hm');
  assert.ok(text.endsWith('\n'));
});

test('a prompt is answered, with its system text, image and options', async ({ real, client }) => {
  real.provider.script = [output('{}', 1), finish()];
  const answer = await client.generate({
    model: 'local/svc-mini',
    prompt: 'What is it?',
    system: 'Be short.',
    images: [PNG],
    format: { type: 'object' },
    keep_alive: '5m',
    options: {
      num_predict: 7,
      temperature: 0.5,
      top_p: 0.9,
      seed: 3,
      stop: ['END'],
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      num_ctx: 8192,
      repeat_penalty: 1.1,
      top_k: 40,
      min_p: 0.05,
      repeat_last_n: -1,
    },
    think: 'low',
  });
  assert.equal([answer.response, answer.done], ['{}', true]);
  const request = real.provider.asked[0]?.request;
  assert.equal(request?.messages, [
    { role: 'system', content: [{ type: 'text', text: 'Be short.' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is it?' },
        { type: 'image', media_type: 'image/png', data: PNG },
      ],
    },
  ]);
  assert.equal(
    [request?.max_tokens, request?.temperature, request?.top_p, request?.seed, request?.stop],
    [7, 0.5, 0.9, 3, ['END']],
  );
  assert.equal([request?.presence_penalty, request?.frequency_penalty], [0.1, 0.2]);
  assert.equal([request?.top_k, request?.min_p, request?.repeat_penalty], [40, 0.05, 1.1]);
  assert.is(request?.context_tokens, 8192);
  assert.is(request?.reasoning_effort, 'low');
  assert.equal(request?.response_format, { type: 'json', name: null, schema: { type: 'object' } });
  const texts = [];
  real.provider.script = [output('Hello'), () => turns(), output(' you'), finish()];
  const stream = await client.generate({
    model,
    prompt: 'x',
    stream: true,
    options: { num_predict: -1 },
  });
  for await (const { response, done } of stream) texts.push([response, done]);
  assert.equal(texts, [
    ['Hello', false],
    [' you', false],
    ['', true],
  ]);
  assert.is(real.provider.asked[1]?.request.max_tokens, 1_048_576, 'no bound but the context');
  for (const num_predict of [-2, 0])
    await client.generate({ model, prompt: 'x', options: { num_predict } });
  const bounds = real.provider.asked.slice(2).map(({ request }) => request.max_tokens);
  assert.equal(bounds, [1_048_576, 1_048_576]);
});

test('any number is a seed, and equal ones stay equal', async ({ real, client }) => {
  for (const seed of [2 ** 62, 2 ** 62, 7, -1])
    await client.generate({ model, prompt: 'x', options: { seed } });
  const asked = real.provider.asked.map(({ request }) => [request.seed, request.seed_asked]);
  assert.equal(asked[0], asked[1]);
  assert.equal(
    asked.map(([, isAsked]) => isAsked),
    [true, true, true, false],
  );
});

test('a busy model is unloaded after its work, and the answer is that of Ollama', async ({
  real,
  client,
}) => {
  const kept: unknown[] = [];
  Object.assign(real.runtime.loads, {
    unload: () => Promise.reject(new SvcError('model_in_use')),
    keep: async (...all: unknown[]) => kept.push(all),
  });
  assert.is((await client.generate({ model, prompt: '', keep_alive: 0 })).done_reason, 'unload');
  assert.equal(kept, [[model, 0]]);
  Object.assign(real.runtime.loads, {
    unload: () => Promise.reject(new SvcError('model_unknown')),
  });
  const unknown = await failed(client.generate({ model, prompt: '', keep_alive: 0 }));
  assert.is(unknown.status_code, 404);
});

test('tools make a round trip, with and without ids', async ({ real, client }) => {
  real.provider.script = [called('c9', '{"city":'), called('c9', '"Oslo"}'), finish()];
  const first = await client.chat({ model, messages, tools: [WEATHER] });
  const call = { function: { index: 0, name: 'weather', arguments: { city: 'Oslo' } } };
  assert.equal(first.message.tool_calls, [{ id: 'c9', ...call }]);
  const streamed = [];
  for await (const { message } of await client.chat({ model, messages, stream: true }))
    streamed.push(...(message.tool_calls ?? []));
  assert.equal(streamed, first.message.tool_calls);
  const bare = (city: string) => ({ function: { name: 'weather', arguments: { city } } });
  await client.chat({
    model,
    tools: [WEATHER],
    messages: [
      ...messages,
      first.message,
      { role: 'tool', tool_name: 'weather', content: 'rain' },
      { role: 'assistant', content: '', tool_calls: [bare('Rome'), bare('Bonn')] },
      { role: 'tool', content: 'sun' },
      { role: 'tool', content: 'fog' },
    ],
  });
  const request = real.provider.asked.at(-1)?.request;
  const results = request?.messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'tool_result' ? [[part.id, part.text]] : [])),
  );
  const made = request?.messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'tool_call' ? [part.id] : [])),
  );
  assert.equal(made, ['c9', 'call_2', 'call_3']);
  assert.equal(results, [
    ['c9', 'rain'],
    ['call_2', 'sun'],
    ['call_3', 'fog'],
  ]);
  assert.equal(
    request?.tools?.map(({ name }) => name),
    ['weather'],
  );
});

test('a call that was cut off is left out', async ({ real, client }) => {
  real.provider.script = [
    called('c', '{"ci'),
    { ...(finish() as Extract<OutputPart, { type: 'finish' }>), finish_reason: 'length' },
  ];
  const cut = await client.chat({ model, messages });
  assert.equal([cut.done_reason, cut.message], ['length', { role: 'assistant', content: '' }]);
  real.provider.script = [
    output('a a', 1),
    { ...(finish() as Extract<OutputPart, { type: 'finish' }>), finish_reason: 'repetition' },
  ];
  assert.is((await client.chat({ model, messages })).done_reason, 'length', 'a repetition is cut');
});

test('probabilities of tokens are sent when they are asked for', async ({ real, client }) => {
  const logprobs = [{ token: 'A', logprob: -0.5, top: [{ token: 'A', logprob: -0.5 }] }];
  real.provider.script = [{ type: 'output', text: 'A', token_ids: [1], logprobs }, finish()];
  const answer = await client.chat({ model, messages, logprobs: true, top_logprobs: 1 });
  assert.is(real.provider.asked[0]?.request.logprobs, 1);
  const one = { token: 'A', logprob: -0.5, bytes: [65] };
  assert.equal(answer.logprobs, [{ ...one, top_logprobs: [one] }] as never);
});

test('models are listed and shown, without paths on disk', async ({ real, client }) => {
  const { models } = await client.list();
  assert.equal(
    models.map(({ name, model, size, digest }) => [name, model, size, digest]),
    [['local/svc-mini:latest', 'local/svc-mini:latest', 1234, 'ab'.repeat(32)]],
  );
  assert.is(String(models[0]?.modified_at), MODEL.modified_at);
  assert.is(models[0]?.details.family, 'qwen2');
  assert.equal(models[0]?.details.parameter_size, '7.6B');
  assert.equal(models[0]?.details.quantization_level, 'Q4_K_M');
  assert.equal(
    (await client.ps()).models.map(({ name }) => name),
    ['local/svc-mini:latest'],
  );
  Object.assign(real.runtime.models, {
    show: async (id: string) => {
      if (id !== MODEL.id) throw new SvcError('model_unknown', `There is no model "${id}".`);
      const metadata = { 'general.architecture': 'qwen2', 'tokenizer.chat_template': '{{x}}' };
      return { ...MODEL, licence: 'mit', metadata };
    },
  });
  for (const name of ['svc-mini', 'svc-mini:latest', 'local/svc-mini']) {
    const shown = await client.show({ model: name });
    assert.equal(
      [shown.template, shown.license, shown.details.family, shown.capabilities],
      ['{{x}}', 'mit', 'qwen2', ['completion']],
    );
    assert.is((shown.model_info as never)['general.architecture'], 'qwen2');
    assert.not.match(JSON.stringify(shown), 'secret');
  }
  await client.copy({ source: 'svc-mini', destination: 'llama3:latest' });
  assert.is((await client.show({ model: 'llama3:latest' })).template, '{{x}}');
  assert.equal(
    (await client.list()).models.map(({ name }) => name),
    ['local/svc-mini:latest', 'llama3:latest'],
  );
  assert.is((await failed(client.show({ model: 'constructor' }))).status_code, 404);
  const unknown = await failed(client.show({ model: 'nope' }));
  assert.is(unknown.status_code, 404);
  assert.match(unknown.message, 'There is no model "nope"');
  const { version } = await client.version();
  assert.match(version, /^\d+\.\d+\.\d+$/);
});

test('a request without a prompt, which loads a model elsewhere, says so', async ({
  real,
  client,
}) => {
  const { response, done, done_reason } = await client.generate({ model, prompt: '' });
  assert.equal([response, done, done_reason], ['', true, 'load']);
  assert.is((await client.chat({ model, messages: [] })).done_reason, 'load');
  assert.is(real.provider.asked.length, 0);
});

test('vectors of texts, one or many', async ({ real, client }) => {
  const asked: unknown[] = [];
  Object.assign(real.runtime.embeddings, {
    embed: async (input: { texts: string[] }) => {
      asked.push(input);
      return {
        vectors: input.texts.map((text) => [text.length, 0.5]),
        input_tokens: 3,
        provider: 'local',
        model: 'm',
      };
    },
  });
  const many = await client.embed({ model, input: ['a', 'bcd'], dimensions: 2, truncate: true });
  assert.equal(many.embeddings, [
    [1, 0.5],
    [3, 0.5],
  ]);
  assert.equal([many.model, many.prompt_eval_count], [model, 3]);
  assert.equal((await client.embed({ model, input: 'ab' })).embeddings, [[2, 0.5]]);
  assert.equal((await client.embeddings({ model, prompt: 'abc' })).embedding, [3, 0.5]);
  assert.equal(asked[0], { model, texts: ['a', 'bcd'], dimensions: 2 });
  assert.match((await failed(client.embed({ model, input: [''] }))).message, 'input.0 must not');
  assert.equal((await client.embed({ model, input: '' })).embeddings, []);
  assert.equal((await client.embed({ model, input: [] })).embeddings, []);
});

test('what a run cannot do is refused by name, as one text', async ({ real }) => {
  const cases: [string, object, RegExp][] = [
    ['chat', { model: undefined }, /model is missing/],
    ['chat', { messages: [{ role: 'robot', content: 'x' }] }, /messages\.0\.role must be one of/],
    ['chat', { messages: [{ role: 'user', content: 'x', images: ['AAAA'] }] }, /0\.images\.0 must/],
    ['chat', { messages: [{ role: 'tool', content: 'x' }] }, /no message before it calls the tool/],
    ['chat', { options: { top_k: -1 } }, /options\.top_k must be/],
    ['chat', { think: 'long' }, /^think must be one of/],
    ['chat', { options: { temperature: 9 } }, /options\.temperature must be/],
    ['chat', { options: { stop: [''] } }, /options\.stop\.0 must not be empty/],
    ['chat', { format: 'yaml' }, /format must be json/],
    ['generate', { prompt: 'x', template: '{{x}}' }, /template is not supported/],
    ['generate', { prompt: 'x', context: [1, 2] }, /context is not supported/],
    ['generate', { prompt: 'x', images: ['%%%'] }, /^images\.0 must be a PNG/],
    ['generate', { prompt: 'x', options: { temperature: 9 } }, /^options\.temperature must be/],
    ['generate', { prompt: 'x', think: 'long' }, /^think must be one of/],
    ['generate', { prompt: 'x', format: 'yaml' }, /^format must be json/],
  ];
  for (const [path, change, message] of cases) {
    const body = { model, ...(path === 'chat' ? { messages } : {}), ...change };
    const { status, json } = await real.get(`/api/${path}`, { method: 'POST', body });
    assert.is(status, 400, message.source);
    assert.match(json.error, message);
  }
  assert.is((await real.runtime.runs.list({})).runs.length, 0);
});

test('errors have the status and the text that the client shows', async ({ real, client }) => {
  const stranger = new Ollama({ host: real.url });
  const refused = await failed(stranger.list());
  assert.is(refused.status_code, 401);
  assert.match(refused.message, 'svc token');
  const { json } = await real.get('/t/wrong/api/tags', { headers: { authorization: '' } });
  assert.is(json.status, json.error, "Ollama's command line shows the status");
  real.provider.script = [new SvcError('model_unknown', 'There is no model.')];
  for (const stream of [true, false]) {
    const unknown = await failed(client.chat({ model, messages, stream } as never));
    assert.is(unknown.status_code, 404);
    assert.match(unknown.message, 'There is no model.');
  }
  real.provider.script = [output('Half', 1), new SvcError('provider_rejected', 'It broke.')];
  const texts: string[] = [];
  const read = async () => {
    for await (const { message } of await client.chat({ model, messages, stream: true }))
      texts.push(message.content);
  };
  assert.match((await failed(read())).message, 'It broke.');
  assert.equal(texts, ['Half']);
});

test('a client that aborts cancels its run', async ({ real, client }) => {
  const begun = gate();
  real.provider.script = (_, signal) => [output('a', 1), () => begun.open(), untilAborted(signal)];
  const stream = await client.chat({ model, messages, stream: true });
  const read = (async () => {
    for await (const _ of stream);
  })().catch((error) => assert.is(error.name, 'AbortError'));
  await begun.opened;
  client.abort();
  await read;
  const [{ id } = { id: '' }] = (await real.runtime.runs.list({})).runs;
  await waitFor(
    'the run is cancelled',
    async () => (await real.runtime.runs.get(id)).state === 'cancelled',
  );
  assert.is(real.provider.open, 0);
});

test.run();
