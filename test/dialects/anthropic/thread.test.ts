import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** Threads: a request names the message that it follows, and sends only what is new. */
const test = suite<{ real: Real; client: Anthropic }>('threads of Anthropic');

const ended = (finish_reason: 'stop' | 'tool_calls'): OutputPart => ({
  type: 'finish',
  finish_reason,
  usage: { input_tokens: 12, output_tokens: 5 },
});
const thought: OutputPart = { type: 'output', kind: 'reasoning', text: 'Hm.', token_ids: [] };
const call: OutputPart = {
  type: 'output',
  kind: 'tool_call',
  call: { id: 'c1', name: 'weather' },
  text: '{"city":"Oslo"}',
  token_ids: [],
};
const WEATHER = {
  name: 'weather',
  description: 'Tells the weather.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' as const } } },
};
const ASKED = { model: 'local/svc-mini', max_tokens: 100 };
const FIRST = {
  ...ASKED,
  system: 'Be brief.',
  tools: [WEATHER],
  messages: [{ role: 'user' as const, content: 'The weather in Oslo?' }],
};
const RESULT = {
  role: 'user' as const,
  content: [{ type: 'tool_result' as const, tool_use_id: 'c1', content: 'rain' }],
};

test.before.each(async (context) => {
  context.real = await bootReal({
    script: ({ request: { messages } }) =>
      messages.at(-1)?.role === 'tool'
        ? [output('It rains.', 1), ended('stop')]
        : [thought, output('Let me see.', 1), call, ended('tool_calls')],
  });
  context.client = new Anthropic({ apiKey: TOKEN, baseURL: context.real.url, maxRetries: 0 });
});
test.after.each(({ real }) => real.close());

const send = (real: Real, body: object) =>
  real.get('/v1/messages', { method: 'POST', body: { ...ASKED, ...body } });

test('a request that continues a thread asks what the whole conversation asks', async ({
  real,
  client,
}) => {
  const first = await send(real, { ...FIRST, thread: { type: 'create' } });
  const thread = { type: 'continue', previous_message_id: first.json.id };
  const second = await send(real, { messages: [RESULT], thread });
  assert.is(second.json.content[0].text, 'It rains.');
  const reply = { role: 'assistant' as const, content: first.json.content };
  await client.messages.create({ ...FIRST, messages: [...FIRST.messages, reply, RESULT] });
  const [, threaded, whole] = real.provider.asked.map(({ request }) => request);
  assert.equal(threaded?.messages, whole?.messages);
  assert.equal(threaded?.tools, whole?.tools);
  // A message may be followed again, and a system text replaces the earlier one.
  const again = await send(real, { messages: [RESULT], thread, system: 'Be long.', tools: [] });
  assert.is(again.status, 200);
  const last = real.provider.asked.at(-1)?.request;
  assert.equal(
    [last?.messages.length, last?.messages[0]?.content, last?.tools],
    [4, [{ type: 'text', text: 'Be long.' }], undefined],
  );
});

test('what the log does not have is thread_not_found, so that clients send all of it', async ({
  real,
}) => {
  real.provider.script = [new SvcError('provider_rejected')];
  const refused = await send(real, FIRST);
  const failed = `msg_${String(refused.headers['x-svc-run-id']).slice('run_'.length)}`;
  const other = await real.get('/v1/runs', { method: 'POST', body: { prompt: 'Hi' } });
  const another = `msg_${other.json.id.slice('run_'.length)}`;
  for (const id of [failed, another, 'msg_none', 'msg_01ARZ3NDEKTSV4RRFFQ69G5FAV', '']) {
    const thread = { type: 'continue', previous_message_id: id };
    const { status, json } = await send(real, { messages: [RESULT], thread });
    assert.equal([status, json.error.type], [404, 'not_found_error'], id);
    assert.equal(json.error.details, {
      error_code: 'thread_not_found',
      param: 'thread.previous_message_id',
    });
  }
});

test('the tool runner of the client sends only what is new, whole and streamed', async ({
  real,
  client,
}) => {
  const run = ({ city }: { city: string }) => `rain in ${city}`;
  const { name, description, input_schema: inputSchema } = WEATHER;
  const weather = betaTool({ name, description, inputSchema, run: run as never });
  const asking = { ...FIRST, tools: [weather] };
  const whole = await client.beta.messages.toolRunner(asking).runUntilDone();
  const streams = client.beta.messages.toolRunner({ ...asking, stream: true });
  let last = whole;
  for await (const stream of streams) last = await stream.finalMessage();
  for (const { content, stop_reason } of [whole, last])
    assert.equal([content, stop_reason], [[{ type: 'text', text: 'It rains.' }], 'end_turn']);
  const roles = real.provider.asked.map(({ request }) =>
    request.messages.map(({ role }) => role).join(' '),
  );
  const [once, twice] = ['system user', 'system user assistant tool'];
  assert.equal(roles, [once, twice, once, twice]);
});

test('an error of a new message has its place in the request', async ({ real }) => {
  const first = await send(real, { ...FIRST, thread: { type: 'create' } });
  const thread = { type: 'continue', previous_message_id: first.json.id };
  const content = [{ type: 'tool_result', tool_use_id: 'none', content: 'rain' }];
  const wrong = await send(real, { messages: [{ role: 'user', content }], thread });
  assert.is(wrong.status, 400);
  assert.match(wrong.json.error.message, /^messages\.0\.content\.0 answers the tool call "none"/);
});

test.run();
