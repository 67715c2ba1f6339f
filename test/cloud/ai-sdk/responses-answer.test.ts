import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, data, type Form, testForms } from '../../helpers/odd-answers.ts';

/** What servers with OpenAI's Responses API really send. Nothing of an answer is lost. */

const item = (type: string, fields: object) => ({ type: `response.${type}`, ...fields });
const message = (text: string) => ({
  type: 'message',
  id: 'm',
  content: [{ type: 'output_text', text }],
});
const fn = (id: string, given: string) => ({
  type: 'function_call',
  id,
  call_id: `call_${id}`,
  name: 'look',
  arguments: given,
});
const completed = (output: object[] = []) =>
  item('completed', { response: { output, usage: { input_tokens: 3, output_tokens: 5 } } });
const text = (value: string, fields: object = {}) =>
  item('output_text.delta', { item_id: 'm', output_index: 0, delta: value, ...fields });

const end = () => [completed()];
const endForms: Form[] = [
  [
    'text only in the item that is done',
    [item('output_item.done', { output_index: 0, item: message('Hello') })],
    'Hello',
  ],
  ['text only in the response', [completed([message('Hello')])], 'Hello'],
  [
    'text in the item that is added',
    [
      item('output_item.added', { output_index: 0, item: message('Hel') }),
      text('lo'),
      item('output_item.done', { output_index: 0, item: message('Hello') }),
    ],
    'Hello',
  ],
  [
    'text that is cut in pieces and whole when done',
    [
      text('Hel'),
      item('output_item.done', { output_index: 0, item: message('Hello') }),
      completed([message('Hello')]),
    ],
    'Hello',
  ],
  [
    'text in all forms',
    [
      text('Hel'),
      text('lo'),
      item('output_text.done', { item_id: 'm', output_index: 0, text: 'Hello' }),
      item('output_item.done', { output_index: 0, item: message('Hello') }),
      completed([message('Hello')]),
    ],
    'Hello',
  ],
  [
    'pieces without a number',
    [
      item('output_item.added', { output_index: 0, item: { ...message(''), content: [] } }),
      text('Hello', { output_index: undefined }),
      completed([message('Hello')]),
    ],
    'Hello',
  ],
  [
    'ids that change',
    [text('Hel', { item_id: 'x' }), text('lo', { item_id: 'y' }), completed([message('Hello')])],
    'Hello',
  ],
  [
    'whole text that is another',
    [text('lo'), item('output_item.done', { output_index: 0, item: message('Hello') })],
    'lo',
    'stream_garbled',
  ],
  [
    'arguments only when the call is done',
    [
      item('output_item.added', { output_index: 0, item: fn('a', '') }),
      item('output_item.done', { output_index: 0, item: fn('a', '{"x":1}') }),
    ],
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'arguments only when the call is added',
    [item('output_item.added', { output_index: 0, item: fn('a', '{"x":1}') })],
    'look({"x":1})',
    'tool_calls',
  ],
  ['a call only in the response', [completed([fn('a', '{"x":1}')])], 'look({"x":1})', 'tool_calls'],
  [
    'reasoning text',
    [
      item('reasoning_text.delta', { item_id: 'r', output_index: 0, delta: 'Hm.' }),
      text('Hello', { output_index: 1 }),
    ],
    'reasoning: Hm., text: Hello',
  ],
  [
    'reasoning only when it is done',
    [
      item('output_item.done', {
        output_index: 0,
        item: { type: 'reasoning', id: 'r', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      }),
      text('Hello', { output_index: 1 }),
    ],
    'reasoning: Hm., text: Hello',
  ],
  [
    'a refusal',
    [item('refusal.delta', { item_id: 'm', output_index: 0, delta: 'No.' })],
    'refusal: No.',
  ],
  [
    'unknown events and items',
    [
      item('glow.delta', { delta: 'x' }),
      { type: 'keepalive' },
      item('output_item.done', { output_index: 0, item: { type: 'hologram', id: 'h' } }),
      text('Hello', { output_index: 1 }),
    ],
    'Hello',
  ],
  [
    'a reason to be incomplete',
    [
      text('Hello'),
      item('incomplete', { response: { incomplete_details: { reason: 'max_output_tokens' } } }),
    ],
    'Hello',
    'length',
  ],
  [
    'chunks of a chat',
    [{ choices: [{ index: 0, delta: { content: 'Hi' } }] }],
    '',
    'stream_garbled',
  ],
];
testForms('openai', { adapter: 'openai' }, end, endForms);

test('words of a failed response are kept, and a used up quota is one', async () => {
  const { failure } = await ask({ adapter: 'openai' }, async (x) => {
    await x
      .open()
      .write(
        data(
          item('failed', {
            response: { error: { code: 'insufficient_quota', message: 'Pay first' } },
          }),
        ),
      );
    x.end();
  });
  assert.is(failure?.code, 'provider_quota_exceeded');
  assert.match(failure?.message ?? '', 'Pay first');
});

test.run();
