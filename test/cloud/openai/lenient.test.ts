import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, data } from '../../helpers/odd-answers.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { chunk, type Exchange } from '../../helpers/upstream.ts';

/**
 * What servers with chat completions really send. Nothing of an answer is lost, and no answer waits
 * for a connection that stays open.
 */

const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] });
const delta = (fields: object) => chunk(fields as Record<string, unknown>);
const call = (fields: object) => delta({ tool_calls: [fields] });
const STOP = chunk({}, 'stop');
const USAGE = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } };
const HELLO = [delta({ content: 'Hel' }), delta({ content: 'lo' })];

const body = (bytes: string) => async (x: Exchange) => {
  await x.open().write(bytes);
  x.end();
};

/** The form, its bytes, the parts of the answer, and how it ended. */
const forms: [form: string, bytes: string, all: string, end?: string][] = [
  ['a reason in capitals', data(...HELLO, chunk({}, 'STOP')), 'Hello'],
  ['LENGTH', data(...HELLO, chunk({}, 'LENGTH')), 'Hello', 'length'],
  ['Max_Tokens', data(...HELLO, chunk({}, 'Max_Tokens')), 'Hello', 'length'],
  ['an empty reason before the last', data(chunk({ content: 'Hello' }, ''), STOP), 'Hello'],
  ['a chunk without choices', data(...HELLO, { usage: USAGE.usage }, STOP), 'Hello'],
  ['a chunk with null choices', data(...HELLO, { id: 'x', choices: null }, STOP), 'Hello'],
  ['a chunk with a null choice', data(...HELLO, { choices: [null] }, STOP), 'Hello'],
  ['a chunk with nothing but an id', data({ id: 'x' }, ...HELLO, STOP), 'Hello'],
  ['an unknown event', data({ type: 'keepalive', at: 1 }, 'null', ...HELLO, STOP), 'Hello'],
  ['[DONE] with spaces', data(...HELLO, STOP, ' [DONE]  '), 'Hello'],
  ['garbage after [DONE]', data(...HELLO, STOP, '[DONE]', '{"a', { error: 'x' }), 'Hello'],
  ['garbage after the reason', data(...HELLO, STOP, '{"a'), 'Hello'],
  ['no empty line at the end', data(...HELLO, STOP).slice(0, -1), 'Hello'],
  ['no end of the last line', data(...HELLO, STOP).slice(0, -2), 'Hello'],
  ['no empty lines at all', data(...HELLO, STOP, '[DONE]').replaceAll('\n\n', '\n'), 'Hello'],
  ['a last event that is cut', data(...HELLO, STOP).slice(0, -4), 'Hello', 'stream_truncated'],
  [
    'JSON in several lines',
    `data: {"choices":[{"index":0,"delta":\ndata: {"content":"Hi"},\ndata: "finish_reason":"stop"}]}\n\n`,
    'Hi',
  ],
  [
    'another choice first',
    data({
      choices: [
        { index: 1, delta: { content: 'WRONG' } },
        { index: 0, delta: { content: 'right' }, finish_reason: 'stop' },
      ],
    }),
    'right',
  ],
  [
    'a chunk of another choice',
    data({ choices: [{ index: 1, delta: { content: 'WRONG' } }] }, ...HELLO, STOP),
    'Hello',
  ],
  [
    'only another choice',
    data({ choices: [{ index: 1, delta: { content: 'a' }, finish_reason: 'stop' }] }),
    '',
    'stream_truncated',
  ],
  [
    'a choice whose number is a text',
    data(choice({ index: '0', delta: { content: 'Hi' }, finish_reason: 'stop' })),
    'Hi',
  ],
  ['message in place of delta', data(choice({ message: { content: 'Hello' } }), STOP), 'Hello'],
  [
    'text in place of delta',
    data(choice({ text: 'Hel' }), choice({ text: 'lo', finish_reason: 'stop' })),
    'Hello',
  ],
  ['delta that is a text', data(choice({ delta: 'Hello', finish_reason: 'stop' })), 'Hello'],
  [
    'an empty delta beside a message',
    data(choice({ delta: { content: '' }, message: { content: 'Hello' }, finish_reason: 'stop' })),
    'Hello',
  ],
  [
    'a last message that repeats',
    data(...HELLO, choice({ message: { content: 'Hello' }, finish_reason: 'stop' })),
    'Hello',
  ],
  [
    'a call in a message',
    data(
      choice({
        message: { tool_calls: [{ function: { name: 'look', arguments: { at: 1 } } }] },
        finish_reason: 'tool_calls',
      }),
    ),
    'look({"at":1})',
    'tool_calls',
  ],
  [
    'a call in a message after text in deltas',
    data(
      ...HELLO,
      choice({
        message: {
          content: 'Hello',
          tool_calls: [{ id: 'a', function: { name: 'look', arguments: '{}' } }],
        },
        finish_reason: 'tool_calls',
      }),
    ),
    'text: Hello, look({})',
    'tool_calls',
  ],
  [
    'a function call of the old form',
    data(
      delta({ function_call: { name: 'look', arguments: '{"a' } }),
      delta({ function_call: { arguments: '":1}' } }),
      chunk({}, 'function_call'),
    ),
    'look({"a":1})',
    'tool_calls',
  ],
  [
    'arguments that are an object',
    data(
      call({ index: 0, id: 'a', function: { name: 'look', arguments: { x: 1 } } }),
      chunk({}, 'tool_calls'),
    ),
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'an empty object before the arguments',
    data(
      call({ index: 0, id: 'a', function: { name: 'look', arguments: {} } }),
      call({ index: 0, function: { arguments: '{"x":1}' } }),
      chunk({}, 'tool_calls'),
    ),
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'a piece without a function',
    data(
      call({ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }),
      call({ index: 0, id: 'a' }),
      chunk({}, 'tool_calls'),
    ),
    'look({})',
    'tool_calls',
  ],
  [
    'a call without the inner object',
    data(call({ index: 0, id: 'a', name: 'look', arguments: '{"x":1}' }), chunk({}, 'tool_calls')),
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'a number of a call that is a text',
    data(
      call({ index: '0', id: 'a', function: { name: 'look', arguments: '{"x"' } }),
      call({ index: '0', function: { arguments: ':1}' } }),
      chunk({}, 'tool_calls'),
    ),
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'a name in each piece of a call, also after the arguments',
    data(
      ...['{"x"', ':1}', ''].map((text) =>
        call({ index: 0, id: 'a', function: { name: 'look', arguments: text } }),
      ),
      chunk({}, 'tool_calls'),
    ),
    'look({"x":1})',
    'tool_calls',
  ],
  [
    'head and tail of a call with different numbers',
    data(
      call({ index: 0, id: 'a', function: { name: 'look', arguments: '{"x":1}' } }),
      call({ index: 0, id: 'b', function: { name: 'wait', arguments: '' } }),
      call({ index: 1, function: { arguments: '{"s":' } }),
      call({ index: 1, function: { arguments: '2}' } }),
      chunk({}, 'tool_calls'),
    ),
    'look({"x":1}), wait({"s":2})',
    'tool_calls',
  ],
  [
    'a tail that fits two calls',
    data(
      call({ index: 0, id: 'a', function: { name: 'look', arguments: '' } }),
      call({ index: 1, id: 'b', function: { name: 'wait', arguments: '' } }),
      call({ index: 2, function: { arguments: '{"s":2}' } }),
      chunk({}, 'tool_calls'),
    ),
    'look(), wait()',
    'stream_garbled',
  ],
  [
    'reasoning that is an object',
    data(delta({ reasoning: { content: 'Hm.' } }), ...HELLO, STOP),
    'reasoning: Hm., text: Hello',
  ],
  [
    'reasoning that is a list',
    data(delta({ reasoning: [{ text: 'Hm' }, '.'] }), ...HELLO, STOP),
    'reasoning: Hm., text: Hello',
  ],
  [
    'an empty name beside the reasoning',
    data(delta({ reasoning_content: '', reasoning: 'Hm.' }), ...HELLO, STOP),
    'reasoning: Hm., text: Hello',
  ],
  // What is opaque follows at the end.
  [
    'reasoning under two names',
    data(
      delta({ reasoning: 'Hm.', reasoning_details: [{ type: 'reasoning.text', text: 'Hm.' }] }),
      ...HELLO,
      STOP,
    ),
    'reasoning: Hm., text: Hello, reasoning: ',
  ],
  [
    'reasoning_details',
    data(
      delta({
        reasoning_details: [
          { type: 'reasoning.summary', summary: 'Hm.' },
          { type: 'reasoning.encrypted', data: 'x' },
        ],
      }),
      ...HELLO,
      STOP,
    ),
    'reasoning: Hm., text: Hello, reasoning: ',
  ],
  [
    'reasoning_text',
    data(delta({ reasoning_text: 'Hm.' }), ...HELLO, STOP),
    'reasoning: Hm., text: Hello',
  ],
  [
    'content that is a part',
    data(delta({ content: { type: 'text', text: 'Hello' } }), STOP),
    'Hello',
  ],
  [
    'parts of another name',
    data(
      delta({
        content: [
          { type: 'output_text', text: 'Hello' },
          { type: 'reference', reference_ids: [1] },
        ],
      }),
      STOP,
    ),
    'Hello',
  ],
  [
    'an image',
    data(...HELLO, delta({ images: [{ type: 'image_url' }] }), STOP),
    'Hello',
    'capability_missing',
  ],
  ['content that is a number', data(delta({ content: 1 }), STOP), '', 'stream_garbled'],
  [
    'text in an event of another protocol',
    data({ type: 'x', delta: { text: 'lost' } }, STOP),
    '',
    'stream_garbled',
  ],
  [
    'a piece of a call of another kind',
    data(call({ index: 0, id: 'a', custom: { name: 'x', input: 'y' } }), chunk({}, 'tool_calls')),
    '',
    'stream_garbled',
  ],
];

for (const [form, bytes, all, end = 'stop'] of forms)
  test(`is read: ${form}`, async () => {
    const seen = await ask({}, body(bytes));
    assert.is(seen.end, end, seen.failure?.message);
    assert.is(seen.all, all);
  });

test('the JSON of an error behind the events says why the answer is cut', async () => {
  const error = { error: { code: 503, message: 'The model is overloaded', status: 'UNAVAILABLE' } };
  for (const text of [
    JSON.stringify(error),
    JSON.stringify(error, null, 2),
    `${JSON.stringify(error)}\n`,
  ]) {
    const { failure, text: kept } = await ask({}, body(data(...HELLO) + text));
    assert.is(failure?.code, 'provider_overloaded');
    assert.is(failure?.status, 503);
    assert.match(failure?.message ?? '', 'The model is overloaded');
    assert.is(kept, 'Hello');
  }
});

test('an answer that cannot be read is not asked for again, and says so', async () => {
  const { failure } = await ask({}, body(data('{"choices":[{"delta":{"content":"He')));
  assert.is(failure?.code, 'stream_garbled');
  assert.is(failure?.retryable, false);
  assert.match(failure?.message ?? '', 'not retried');
});

const held: [what: string, bytes: string, output_tokens: number | null][] = [
  ['[DONE]', data(...HELLO, STOP, USAGE, '[DONE]'), 5],
  ['[DONE] without an empty line', `${data(...HELLO, STOP, USAGE)}data: [DONE]\n`, 5],
  ['usage and no [DONE]', data(...HELLO, STOP, USAGE), 5],
  ['a reason and nothing more', data(...HELLO, STOP), null],
];
for (const [what, bytes, output_tokens] of held)
  test(`${what} ends an answer whose connection stays open`, async () => {
    const { opened: closed, open: close } = gate();
    const seen = await ask({}, async (x) => {
      void x.closed.then(close);
      await x.open().write(bytes);
    });
    assert.is(seen.end, 'stop', seen.failure?.message);
    assert.is(seen.text, 'Hello');
    assert.is(seen.finish?.usage.output_tokens, output_tokens);
    await closed;
  });

for (const [server, last, speed] of [
  ['llama-server', { timings: { predicted_n: 50, predicted_ms: 2000 } }, 25],
  [
    'Groq',
    { usage: undefined, x_groq: { usage: { completion_tokens: 30, completion_time: 0.5 } } },
    60,
  ],
  ['Cerebras', { ...USAGE, time_info: { completion_time: 0.01 } }, 500],
  ['one token', { timings: { predicted_n: 1, predicted_ms: 0.001 } }, undefined],
  ['no time', { timings: { predicted_n: 50, predicted_ms: 0 } }, undefined],
  ['an odd time', { timings: { predicted_n: 50, predicted_ms: 'soon' } }, undefined],
  ['an impossible speed', { timings: { predicted_n: 9e15, predicted_ms: 1e-300 } }, undefined],
  ['none', {}, undefined],
] as const)
  test(`the speed of an answer is that of its engine: ${server}`, async () => {
    const seen = await ask({}, body(data(...HELLO, STOP, { ...USAGE, ...last }, '[DONE]')));
    assert.is(seen.finish?.tokens_per_second, speed);
  });

test('heartbeats after the finish reason hold nothing up', async () => {
  const seen = await ask({}, async (x) => {
    await x.open().write(data(...HELLO, STOP));
    while (!x.socket.destroyed) {
      await x.write(': still here\n\n').catch(() => undefined);
      await new Promise(setImmediate);
    }
  });
  assert.is(seen.end, 'stop', seen.failure?.message);
});

test('text after a finish reason belongs to the answer', async () => {
  const seen = await ask({}, body(data(...HELLO, STOP, delta({ content: '!' }), STOP, '[DONE]')));
  assert.is(seen.text, 'Hello!');
});

test.run();
