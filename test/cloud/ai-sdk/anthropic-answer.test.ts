import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Asking } from '../../helpers/asking.ts';
import { ask, data, type Form, testForms } from '../../helpers/odd-answers.ts';

/** What servers with Anthropic's messages really send. Nothing of an answer is lost. */

const start = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
});
const delta = (index: number, fields: object) => ({
  type: 'content_block_delta',
  index,
  delta: fields,
});
const stop = (index: number) => ({ type: 'content_block_stop', index });
const textDelta = (text: string) => delta(0, { type: 'text_delta', text });
const tool = (index: number, id: string, input: object) =>
  start(index, { type: 'tool_use', id, name: 'look', input });
const json = (index: number, partial_json: string) =>
  delta(index, { type: 'input_json_delta', partial_json });
const openText = start(0, { type: 'text', text: '' });

const end = (hasCall: boolean) => [
  {
    type: 'message_delta',
    delta: { stop_reason: hasCall ? 'tool_use' : 'end_turn' },
    usage: { input_tokens: 3, output_tokens: 5 },
  },
  { type: 'message_stop' },
];
const endForms: Form[] = [
  [
    'text that begins with its block',
    [start(0, { type: 'text', text: 'H' }), textDelta('ello'), stop(0)],
    'Hello',
  ],
  ['text only in the first event', [start(0, { type: 'text', text: 'Hello' }), stop(0)], 'Hello'],
  [
    'thinking that begins with its block',
    [
      start(0, { type: 'thinking', thinking: 'H' }),
      delta(0, { type: 'thinking_delta', thinking: 'm.' }),
      stop(0),
      start(1, { type: 'text', text: 'Hello' }),
    ],
    'reasoning: Hm., text: Hello',
  ],
  [
    'redacted thinking',
    [
      start(0, { type: 'redacted_thinking', data: 'x' }),
      stop(0),
      start(1, { type: 'text', text: 'Hello' }),
    ],
    'reasoning: , text: Hello',
  ],
  [
    'arguments only in the first event',
    [tool(0, 'a', { path: 'x' }), stop(0)],
    'look({"path":"x"})',
    'tool_calls',
  ],
  [
    'arguments in the first event, and no end of the block',
    [tool(0, 'a', { path: 'x' })],
    'look({"path":"x"})',
    'tool_calls',
  ],
  [
    'arguments in the first event and again',
    [tool(0, 'a', { path: 'x' }), json(0, '{"path"'), json(0, ':"x"}'), stop(0)],
    'look({"path":"x"})',
    'tool_calls',
  ],
  [
    'two calls of both forms',
    [tool(0, 'a', { n: 1 }), stop(0), tool(1, 'b', {}), json(1, '{"n":2}'), stop(1)],
    'look({"n":1}), look({"n":2})',
    'tool_calls',
  ],
  ['a call without arguments', [tool(0, 'a', {}), stop(0)], 'look({})', 'tool_calls'],
  [
    'a message that has its content at the start',
    [{ type: 'message_start', message: { content: [{ type: 'text', text: 'Hello' }] } }],
    'Hello',
  ],
  [
    'an unknown event',
    [{ type: 'vertex_event', message: 'x' }, openText, textDelta('Hello')],
    'Hello',
  ],
  [
    'an unknown block',
    [
      start(0, { type: 'hologram', data: 1 }),
      delta(0, { type: 'hologram_delta', data: 2 }),
      stop(0),
      start(1, { type: 'text', text: 'Hello' }),
    ],
    'Hello',
  ],
  [
    'an unknown delta',
    [openText, textDelta('Hel'), delta(0, { type: 'glow_delta', glow: 1 }), textDelta('lo')],
    'Hello',
  ],
  [
    'work of the server',
    [
      start(0, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
      json(0, '{"query":"x"}'),
      stop(0),
      start(1, { type: 'web_search_tool_result', tool_use_id: 's', content: [] }),
      stop(1),
      start(2, { type: 'text', text: 'Hello' }),
    ],
    'Hello',
  ],
  ['arguments of no block', [json(3, '{"x":1}')], '', 'stream_garbled'],
];
testForms('anthropic', { adapter: 'anthropic' }, end, endForms);

test('anthropic: a whole message is an answer', async () => {
  const content = [{ type: 'text', text: 'Hello' }];
  const usage = { input_tokens: 3, output_tokens: 5 };
  const seen = await ask({ adapter: 'anthropic' }, (x) =>
    x.reply(200, { type: 'message', content, stop_reason: 'end_turn', usage }),
  );
  assert.is(seen.end, 'stop', seen.failure?.message);
  assert.is(seen.text, 'Hello');
});

const SCHEMA: Asking = {
  model: 'claude-3-haiku-20240307',
  response_format: {
    type: 'json',
    name: 'sky',
    schema: {
      type: 'object',
      properties: { at: { type: 'number' } },
      additionalProperties: false,
      required: ['at'],
    },
  },
};
test('the tool that a package adds for JSON is the text of the answer', async () => {
  const called: string[] = [];
  const seen = await ask(
    { adapter: 'anthropic' },
    async (x) => {
      const [added] = (x.json as { tools: { name: string }[] }).tools;
      called.push(added?.name ?? '');
      await x
        .open()
        .write(
          data(
            start(0, { type: 'text', text: 'I answer in JSON.' }),
            start(1, { type: 'tool_use', id: 'a', name: called[0], input: {} }),
            json(1, '{"at":'),
            json(1, '1}'),
            stop(1),
            {
              type: 'message_delta',
              delta: { stop_reason: 'tool_use' },
              usage: { output_tokens: 5 },
            },
            { type: 'message_stop' },
          ),
        );
      x.end();
    },
    SCHEMA,
  );
  assert.equal(called, ['json']);
  assert.is(seen.end, 'stop', seen.failure?.message);
  assert.is(seen.all, '{"at":1}');
});

test.run();
