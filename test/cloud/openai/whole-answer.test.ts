import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcome, remote } from '../../helpers/remote.ts';
import { type Exchange, Upstream } from '../../helpers/upstream.ts';

/** A provider that answers only whole, as some proxies do. */
const whole =
  (message: object, finish_reason: string | null, more: object = {}) =>
  (x: Exchange) =>
    x.reply(200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason, ...more }],
      usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
    });

async function asked(scenario: (x: Exchange) => void, stream = false) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, { config: { stream } });
  try {
    return { ...(await outcome(provider)), received: upstream.received };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

test('a server that is not asked for a stream answers whole', async () => {
  const { text, finish, received } = await asked(whole({ content: 'Hello' }, 'stop'));
  assert.is(text, 'Hello');
  assert.equal(finish, {
    type: 'finish',
    finish_reason: 'stop',
    usage: { input_tokens: 3, output_tokens: 5 },
  });
  const body = JSON.parse(received[0]?.body ?? '{}');
  assert.is(body.stream, false);
  assert.not('stream_options' in body);
});

test('a server that ignores the wish for a stream answers whole', async () => {
  const { text, finish, received } = await asked(whole({ content: 'Hello' }, 'length'), true);
  assert.is(text, 'Hello');
  assert.is(finish?.finish_reason, 'length');
  assert.is(JSON.parse(received[0]?.body ?? '{}').stream, true);
});

test('reasoning, tool calls and refusals of a whole answer are read', async () => {
  const tool_calls = [
    { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } },
    { id: 'call_2', type: 'function', function: { name: 'wait', arguments: { s: 1 } } },
  ];
  const calls = await asked(
    whole({ content: null, reasoning_content: 'Hm.', tool_calls }, 'tool_calls'),
  );
  assert.is(calls.finish?.finish_reason, 'tool_calls');
  assert.equal(calls.parts, [
    { type: 'reasoning', text: 'Hm.' },
    { type: 'tool_call', id: 'call_1', name: 'look', arguments: '{"at":"sky"}' },
    { type: 'tool_call', id: 'call_2', name: 'wait', arguments: '{"s":1}' },
  ]);
  const refusal = await asked(whole({ content: null, refusal: 'No.' }, 'stop'));
  assert.equal(refusal.parts, [{ type: 'refusal', text: 'No.' }]);
});

test('a whole answer in parts is one text', async () => {
  const content = [
    { type: 'text', text: 'Hel' },
    { type: 'text', text: 'lo' },
  ];
  assert.is((await asked(whole({ content }, 'stop'))).text, 'Hello');
});

for (const stream of [true, false])
  test(`an answer that is cut off is not complete, with stream ${stream}`, async () => {
    const { failure, finish } = await asked(
      (x) => void x.response.writeHead(200, { 'content-type': 'application/json' }).end('{"choi'),
      stream,
    );
    assert.is(finish, null);
    assert.is(failure?.code, 'provider_not_found');
  });

test('a document that nests too deeply is not parsed', async () => {
  const { failure } = await asked((x) => void x.response.writeHead(200).end('['.repeat(5000)));
  assert.match(failure?.message ?? '', 'more for an answer than the daemon accepts (64 levels)');
});

test.run();
