import { createAnthropic } from '@ai-sdk/anthropic';
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** The provider of the AI SDK for Anthropic. It refuses an answer that differs from its schema. */
const test = suite<{ real: Real }>('the AI SDK, as a client of Anthropic');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [] });
});
test.after.each(({ real }) => real.close());

const modelOf = ({ url }: Real) =>
  createAnthropic({ baseURL: `${url}/v1`, apiKey: TOKEN })('local/svc-mini');
const part = (kind: 'reasoning' | 'refusal', text: string): OutputPart => ({
  type: 'output',
  kind,
  text,
  token_ids: [],
});
const call: OutputPart = {
  type: 'output',
  kind: 'tool_call',
  call: { id: 'c1', name: 'weather' },
  text: '{"city":"Oslo"}',
  token_ids: [],
};
const ended = (finish_reason: 'stop' | 'length' | 'tool_calls' | 'content_filter'): OutputPart => ({
  type: 'finish',
  finish_reason,
  usage: { input_tokens: 12, output_tokens: 5 },
});

test('every kind of answer is read, whole and streamed', async ({ real }) => {
  const cases: [OutputPart[], string, string][] = [
    [[output('Hello', 1), ended('stop')], 'Hello', 'stop'],
    [[part('reasoning', 'Hm.'), output('Yes', 1), ended('stop')], 'Yes', 'stop'],
    [[output('Half', 1), ended('length')], 'Half', 'length'],
    [[part('refusal', 'No.'), ended('stop')], 'No.', 'content-filter'],
    [[output('Hm', 1), ended('content_filter')], 'Hm', 'content-filter'],
    [[ended('stop')], '', 'stop'],
  ];
  for (const [script, text, reason] of cases) {
    real.provider.script = script;
    const asking = { model: modelOf(real), prompt: 'Hi', maxRetries: 0 };
    const whole = await generateText(asking);
    const stream = streamText(asking);
    for (const [said, why, usage] of [
      [whole.text, whole.finishReason, whole.usage],
      [await stream.text, await stream.finishReason, await stream.usage],
    ] as const)
      assert.equal([said, why, usage.inputTokens, usage.outputTokens], [text, reason, 12, 5]);
  }
});

test('a tool makes its round trip, whole and streamed', async ({ real }) => {
  real.provider.script = ({ request: { messages } }) =>
    messages.at(-1)?.role === 'tool'
      ? [output('It rains.', 1), ended('stop')]
      : [part('reasoning', 'I ask.'), output('Let me see.', 1), call, ended('tool_calls')];
  const inputSchema = jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { type: 'string' } },
  });
  const asking = {
    model: modelOf(real),
    prompt: 'The weather in Oslo?',
    maxRetries: 0,
    tools: { weather: tool({ inputSchema, execute: async ({ city }) => `rain in ${city}` }) },
    stopWhen: stepCountIs(3),
  };
  assert.is((await generateText(asking)).text, 'It rains.');
  assert.is(await streamText(asking).text, 'It rains.');
  const [, again, , last] = real.provider.asked;
  for (const each of [again, last])
    assert.equal(each?.request.messages.at(-1)?.content, [
      { type: 'tool_result', id: 'c1', text: 'rain in Oslo', is_error: false },
    ]);
});

test('an object is made to its schema', async ({ real }) => {
  real.provider.script = ({ request: { tools = [] } }) =>
    tools.length === 0
      ? [output('{"city":"Oslo"}', 1), ended('stop')]
      : [{ ...call, call: { id: 'c1', name: tools[0]?.name ?? '' } } as never, ended('tool_calls')];
  const schema = jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
  });
  const asking = { model: modelOf(real), schema, prompt: 'Where?', maxRetries: 0 };
  assert.equal((await generateObject(asking)).object, { city: 'Oslo' });
});

test.run();
