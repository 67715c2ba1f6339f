import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, MODEL, weather } from './boot.ts';

const test = suite<{ real: Real }>('LangChain with the Responses API');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const modelOf = (real: Real) =>
  new ChatOpenAI({
    model: MODEL,
    apiKey: TOKEN,
    useResponsesApi: true,
    maxRetries: 0,
    configuration: { baseURL: `${real.url}/v1` },
  });

test('a text is answered, and streamed', async ({ real }) => {
  const model = modelOf(real);
  const answer = await model.invoke('Hi');
  assert.is(answer.text, 'Hello you');
  assert.match(JSON.stringify(answer.usage_metadata), '"total_tokens":5');
  let text = '';
  for await (const piece of await model.stream('Hi')) text += piece.text;
  assert.is(text, 'Hello you');
});

test('a tool is called, and its result is sent back', async ({ real }) => {
  real.provider.script = ({ request }: AttemptRequest) =>
    request.messages.at(-1)?.role === 'tool'
      ? [output('Sunny.', 1), end()]
      : [call('c1', '{"city":'), call('c1', '"Bonn"}'), end('tool_calls')];
  const model = modelOf(real).bindTools([weather]);
  const question = new HumanMessage('Weather?');
  const first = await model.invoke([question]);
  assert.equal(first.tool_calls?.[0]?.args, { city: 'Bonn' });
  const result = new ToolMessage({ tool_call_id: 'c1', content: '21 C' });
  const second = await model.invoke([question, first, result]);
  assert.is(second.text, 'Sunny.');
  const roles = asked(real).messages.map(({ role }) => role);
  assert.equal(roles, ['user', 'assistant', 'tool']);
});

test.run();
