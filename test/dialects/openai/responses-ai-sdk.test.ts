import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, MODEL, think } from './boot.ts';

const test = suite<{ real: Real }>('the AI SDK with the Responses API');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const modelOf = (real: Real) =>
  createOpenAI({ baseURL: `${real.url}/v1`, apiKey: TOKEN }).responses(MODEL);

test('a text is generated, and streamed', async ({ real }) => {
  const model = modelOf(real);
  const whole = await generateText({ model, prompt: 'Hi', maxRetries: 0 });
  assert.is(whole.text, 'Hello you');
  assert.is(whole.usage.inputTokens, 3);
  const stream = streamText({ model, prompt: 'Hi', maxRetries: 0 });
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.is(text, 'Hello you');
  assert.is(await stream.finishReason, 'stop');
});

test('reasoning is shown, whole and streamed', async ({ real }) => {
  real.provider.script = [think('Hm.'), think(' Yes.'), output('Sure.', 1), end()];
  const ask = { model: modelOf(real), prompt: 'Hi', maxRetries: 0 };
  const whole = await generateText(ask);
  assert.equal([whole.reasoningText, whole.text], ['Hm. Yes.', 'Sure.']);
  const stream = streamText(ask);
  const seen: [string, string][] = [];
  for await (const part of stream.fullStream)
    if (part.type === 'reasoning-delta' || part.type === 'text-delta')
      seen.push([part.type, part.text]);
  const said = (type: string) => seen.flatMap(([of, text]) => (of === type ? [text] : [])).join('');
  assert.is(said('reasoning-delta'), 'Hm. Yes.');
  assert.is(said('text-delta'), 'Sure.');
  assert.is(seen[0]?.[0], 'reasoning-delta');
});

test('a tool is called, and its result is sent back', async ({ real }) => {
  real.provider.script = ({ request }: AttemptRequest) =>
    request.messages.at(-1)?.role === 'tool'
      ? [output('Sunny.', 1), end()]
      : [think('I ask.'), call('c1', '{"city":'), call('c1', '"Bonn"}'), end('tool_calls')];
  const schema = jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  });
  const cities: string[] = [];
  const weather = tool({
    description: 'Says the weather.',
    inputSchema: schema,
    execute: async ({ city }) => {
      cities.push(city);
      return '21 C';
    },
  });
  const ask = {
    model: modelOf(real),
    prompt: 'Weather?',
    tools: { weather },
    maxRetries: 0,
    stopWhen: stepCountIs(3),
  };
  assert.is((await generateText(ask)).text, 'Sunny.');
  assert.is(await streamText(ask).text, 'Sunny.');
  assert.equal(cities, ['Bonn', 'Bonn']);
  const roles = asked(real).messages.map(({ role }) => role);
  assert.equal(roles, ['user', 'assistant', 'tool']);
});

test('an answer that fails is an error', async ({ real }) => {
  real.provider.script = [output('one ', 1), new Error('broken')];
  const errors: unknown[] = [];
  const stream = streamText({
    model: modelOf(real),
    prompt: 'Hi',
    maxRetries: 0,
    onError: ({ error }) => void errors.push(error),
  });
  for await (const _ of stream.textStream);
  assert.is(errors.length, 1);
});

test.run();
