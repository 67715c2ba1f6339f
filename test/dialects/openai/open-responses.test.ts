import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { output } from '../../helpers/scripted-provider.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, MODEL } from './boot.ts';

/** What the specification of Open Responses asks of the object `response`. */
const test = suite<{ real: Real }>('Open Responses');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const FIELDS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'incomplete_details',
  'model',
  'previous_response_id',
  'instructions',
  'output',
  'error',
  'tools',
  'tool_choice',
  'truncation',
  'parallel_tool_calls',
  'text',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'top_logprobs',
  'temperature',
  'reasoning',
  'usage',
  'max_output_tokens',
  'max_tool_calls',
  'store',
  'background',
  'service_tier',
  'metadata',
  'safety_identifier',
  'prompt_cache_key',
];
const post = async (real: Real, body: object, path = '/v1/responses') =>
  (await real.get(path, { method: 'POST', body: { model: MODEL, ...body } })).json;

test('a response has every field, with a number where the request has none', async ({ real }) => {
  const response = await post(real, { input: 'Hi' });
  assert.equal(
    FIELDS.filter((field) => !(field in response)),
    [],
  );
  const { temperature, top_p, presence_penalty, frequency_penalty } = response;
  assert.equal([temperature, top_p, presence_penalty, frequency_penalty], [1, 1, 0, 0]);
  assert.equal([response.safety_identifier, response.prompt_cache_key], [null, null]);
  assert.equal(asked(real).temperature, null, 'the provider chooses');
});

test('a response has what was asked', async ({ real }) => {
  const wishes = {
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 1,
    frequency_penalty: -1,
    safety_identifier: 'someone',
    prompt_cache_key: 'a key',
    max_output_tokens: 9,
  };
  const response = await post(real, { input: 'Hi', ...wishes });
  for (const [field, value] of Object.entries(wishes)) assert.is(response[field], value, field);
  const again = (await real.get(`/v1/responses/${response.id}`)).json;
  assert.equal(again, response);
  assert.equal([asked(real).presence_penalty, asked(real).frequency_penalty], [1, -1]);
});

test('a history with phases, a call of a function, and a stream with the same end', async ({
  real,
}) => {
  const turn = (phase: string) => ({ type: 'message', role: 'assistant', phase, content: 'So.' });
  const user = { type: 'message', role: 'user', content: 'Go on.' };
  const input = [turn('commentary'), turn('final_answer'), user];
  assert.is((await post(real, { input })).status, 'completed');
  real.provider.script = [call('c', '{"city":"Bonn"}'), end('tool_calls')];
  const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object' } }];
  const called = await post(real, { input: 'Weather?', tools });
  assert.equal([called.output[0].type, called.tools[0].name], ['function_call', 'weather']);
  real.provider.script = [output('Hi', 1), end()];
  const { text } = await real.get('/v1/responses', {
    method: 'POST',
    body: { model: MODEL, input: 'Hi', stream: true },
  });
  const events = text.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line] : []));
  const { type, response } = JSON.parse((events.at(-1) ?? '').slice(6));
  assert.is(type, 'response.completed');
  assert.equal((await real.get(`/v1/responses/${response.id}`)).json, response);
});

test.run();
