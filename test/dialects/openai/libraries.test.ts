import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, MODEL, think } from './boot.ts';

/** Libraries that speak the API of OpenAI, as programs use them. */
const test = suite<{ real: Real }>('libraries that speak the API of OpenAI');

test.before.each(async (context) => {
  context.real = (await bootOpenai()).real;
});
test.after.each(({ real }) => real.close());

const CITY = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
} as const;

const langchain = (real: Real, more: object = {}) =>
  new ChatOpenAI({
    model: MODEL,
    apiKey: TOKEN,
    maxRetries: 0,
    streamUsage: true,
    ...more,
    configuration: { baseURL: `${real.url}/v1` },
  });

test('LangChain: an answer, whole and streamed, with its usage', async ({ real }) => {
  const model = langchain(real, { temperature: 0.2, stop: ['END'] });
  const whole = await model.invoke([new SystemMessage('Be short.'), new HumanMessage('Hi')]);
  assert.equal([whole.text, tokensOf(whole)], ['Hello you', 5]);
  assert.is(whole.response_metadata.finish_reason, 'stop');
  assert.equal([asked(real).temperature, asked(real).stop], [0.2, ['END']]);
  let text = '';
  let tokens = 0;
  let reason: unknown;
  for await (const chunk of await model.stream('Hi')) {
    text += chunk.text;
    tokens += tokensOf(chunk);
    reason = chunk.response_metadata.finish_reason ?? reason;
  }
  assert.equal([text, tokens, reason], ['Hello you', 5, 'stop']);
});

test('LangChain: tool calls and their results', async ({ real }) => {
  const weather = langchainTool(() => 'sun', {
    name: 'weather',
    description: 'Says the weather.',
    schema: CITY,
  });
  const model = langchain(real).bindTools([weather]);
  real.provider.script = [call('a', '{"city":'), call('a', '"Bern"}'), end('tool_calls')];
  const first = await model.invoke('Hi');
  const calls = [{ name: 'weather', args: { city: 'Bern' }, id: 'a', type: 'tool_call' }];
  assert.equal(first.tool_calls, calls as never);
  let streamed: Awaited<ReturnType<typeof model.invoke>> | undefined;
  for await (const chunk of await model.stream('Hi'))
    streamed = streamed === undefined ? chunk : (streamed as typeof chunk).concat(chunk);
  assert.equal(streamed?.tool_calls, calls as never);
  real.provider.script = [output('Sunny.', 1), end()];
  const next = await model.invoke([
    new HumanMessage('Hi'),
    first,
    new ToolMessage({ content: 'sun', tool_call_id: 'a' }),
  ]);
  assert.is(next.text, 'Sunny.');
  assert.equal(
    asked(real).messages.map(({ role }) => role),
    ['user', 'assistant', 'tool'],
  );
});

test('LangChain: an answer that has a schema', async ({ real }) => {
  real.provider.script = [output('{"city":"Bern"}', 1), end()];
  const model = langchain(real).withStructuredOutput(CITY, { method: 'jsonSchema', name: 'place' });
  assert.equal(await model.invoke('Where?'), { city: 'Bern' } as never);
  assert.equal(asked(real).response_format?.name, 'place');
});

test('LangChain: a failure in the middle of a stream is thrown', async ({ real }) => {
  const failure = new SvcError('engine_failed', 'It broke.', { retryable: false });
  real.provider.script = [output('a', 1), failure];
  const seen: unknown[] = [];
  const thrown = await (async () => {
    for await (const chunk of await langchain(real).stream('Hi')) seen.push(chunk.text);
  })().catch((error: Error) => error);
  assert.ok(seen.includes('a'));
  assert.match((thrown as Error).message, 'It broke.');
});

/** The types of these messages depend on the model. */
function tokensOf(message: object): number {
  const { usage_metadata } = message as { usage_metadata?: { total_tokens: number } };
  return usage_metadata?.total_tokens ?? 0;
}

const sdk = (real: Real) =>
  createOpenAICompatible({
    name: 'svc',
    baseURL: `${real.url}/v1`,
    apiKey: TOKEN,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })(MODEL);

test('AI SDK: an answer, whole and streamed, with reasoning and usage', async ({ real }) => {
  real.provider.script = [think('hm'), output('Hello', 1), output(' you', 2), end()];
  const model = sdk(real);
  const whole = await generateText({ model, prompt: 'Hi', maxRetries: 0, seed: 7 });
  assert.equal([whole.text, whole.reasoningText, whole.finishReason], ['Hello you', 'hm', 'stop']);
  assert.is(whole.usage.totalTokens, 5);
  assert.is(asked(real).seed, 7);
  const streamed = streamText({ model, prompt: 'Hi', maxRetries: 0 });
  assert.is(await streamed.text, 'Hello you');
  assert.equal(
    [await streamed.reasoningText, await streamed.finishReason, (await streamed.usage).totalTokens],
    ['hm', 'stop', 5],
  );
});

test('AI SDK: a tool is called, and its result is asked about', async ({ real }) => {
  real.provider.script = ({ request }) =>
    request.messages.some(({ role }) => role === 'tool')
      ? [output('It is sunny.', 1), end()]
      : [call('a', '{"city":'), call('a', '"Bern"}'), end('tool_calls')];
  const cities: string[] = [];
  const weather = tool({
    description: 'Says the weather.',
    inputSchema: jsonSchema<{ city: string }>(CITY),
    execute: async ({ city }) => {
      cities.push(city);
      return 'sun';
    },
  });
  const asking = { model: sdk(real), prompt: 'Hi', tools: { weather }, maxRetries: 0 };
  const whole = await generateText({ ...asking, stopWhen: stepCountIs(3) });
  const streamed = streamText({ ...asking, stopWhen: stepCountIs(3) });
  assert.equal([whole.text, await streamed.text], ['It is sunny.', 'It is sunny.']);
  assert.equal(cities, ['Bern', 'Bern']);
});

test('AI SDK: an object of a schema', async ({ real }) => {
  real.provider.script = [output('{"city":"Bern"}', 1), end()];
  const { object } = await generateObject({
    model: sdk(real),
    prompt: 'Where?',
    maxRetries: 0,
    schema: jsonSchema<{ city: string }>(CITY),
  });
  assert.equal(object, { city: 'Bern' });
  assert.equal(asked(real).response_format?.schema, CITY);
});

test('AI SDK: a failure in the middle of a stream, and an abort', async ({ real }) => {
  const failure = new SvcError('engine_failed', 'It broke.', { retryable: false });
  real.provider.script = [output('a', 1), failure];
  const errors: unknown[] = [];
  const broken = streamText({
    model: sdk(real),
    prompt: 'Hi',
    maxRetries: 0,
    onError: ({ error }) => void errors.push(error),
  });
  await broken.consumeStream();
  assert.is(errors.length, 1);

  real.provider.script = (_, signal) => [output('a', 1), untilAborted(signal)];
  const leave = new AbortController();
  const left = streamText({
    model: sdk(real),
    prompt: 'Hi',
    maxRetries: 0,
    abortSignal: leave.signal,
  });
  for await (const part of left.textStream) if (part === 'a') leave.abort();
  await waitFor('the run is cancelled', async () =>
    (await real.runtime.runs.list({})).runs.some(({ state }) => state === 'cancelled'),
  );
});

test.run();
