import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { remote } from '../../helpers/remote.ts';
import { chunk, type Scenario, Upstream } from '../../helpers/upstream.ts';
import { bootReal } from '../../transport/http/real.ts';
import { clientOf, weather } from './boot.ts';

/**
 * The `openai` package, svc, and a remote API behind it: what goes through, and what comes back.
 */
async function boot(scenario: Scenario) {
  const upstream = await Upstream.start(scenario);
  const port = remote(upstream.base_url);
  const real = await bootReal({ remote: { lan: { port, kind: 'local' } } });
  const client = clientOf(real);
  const close = async () => {
    await real.close();
    await port.close();
    await upstream.stop();
  };
  const chats = () => upstream.received.filter(({ path }) => path === '/v1/chat/completions');
  return { real, client, chats, close };
}

const WAV = Buffer.from('RIFF\0\0\0\0WAVEfmt ').toString('base64');
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==';

test('tools, images, sounds and tool calls go through, and a second turn continues the first', async () => {
  const { client, chats, close } = await boot(async (x) => {
    if (x.received.method === 'GET') return x.reply(200, { data: [{ id: 'm' }] });
    x.open();
    const { messages } = x.json as { messages: { role: string }[] };
    if (messages.at(-1)?.role === 'tool') return x.answer('It rains.');
    await x.event(chunk({ reasoning_content: 'I must look.' }));
    const piece = (index: number, id: string | undefined, args: string) => ({
      index,
      ...(id === undefined ? {} : { id, type: 'function' }),
      function: { ...(id === undefined ? {} : { name: 'weather' }), arguments: args },
    });
    await x.event(chunk({ tool_calls: [piece(0, 'a', '{"city":')] }));
    await x.event(chunk({ tool_calls: [piece(1, 'b', '{}'), piece(0, undefined, '"Bern"}')] }));
    await x.finish('stop');
    await x.usage(9, 4);
    await x.done();
  });
  const messages = [
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: 'Will it rain here?' },
        { type: 'image_url' as const, image_url: { url: `data:image/png;base64,${PNG}` } },
        { type: 'input_audio' as const, input_audio: { data: WAV, format: 'wav' as const } },
        { type: 'input_audio' as const, input_audio: { data: 'SUQzBA==', format: 'mp3' as const } },
      ],
    },
  ];
  const first = await client.chat.completions
    .stream({ model: 'lan/m', messages, tools: [weather] })
    .finalChatCompletion();
  const [choice] = first.choices;
  assert.is(choice?.finish_reason, 'tool_calls');
  const calls = choice?.message.tool_calls ?? [];
  assert.equal(
    calls.map((call) => call.type === 'function' && [call.id, call.function.arguments]),
    [
      ['a', '{"city":"Bern"}'],
      ['b', '{}'],
    ],
  );
  const results = calls.map(({ id }) => ({
    role: 'tool' as const,
    tool_call_id: id,
    content: 'rain',
  }));
  const second = await client.chat.completions.create({
    model: 'lan/m',
    messages: [...messages, { role: 'assistant', content: null, tool_calls: calls }, ...results],
    tools: [weather],
  });
  assert.is(second.choices[0]?.message.content, 'It rains.');
  const [one, two] = chats().map(({ body }) => JSON.parse(body));
  assert.equal(one.messages, messages);
  assert.equal(one.tools, [weather]);
  assert.equal(
    two.messages.map(({ role }: { role: string }) => role),
    ['user', 'assistant', 'tool', 'tool'],
  );
  assert.equal(
    two.messages[1].tool_calls.map(({ id }: { id: string }) => id),
    ['a', 'b'],
  );
  await close();
});

test('a stream that ends within a tool call is an error for the client', async () => {
  const { client, close } = await boot(async (x) => {
    if (x.received.method === 'GET') return x.reply(200, { data: [{ id: 'm' }] });
    x.open();
    const call = { index: 0, id: 'a', type: 'function' };
    await x.event(
      chunk({ tool_calls: [{ ...call, function: { name: 'weather', arguments: '{"c' } }] }),
    );
    x.end();
  });
  const failed = await client.chat.completions
    .create({ model: 'lan/m', messages: [{ role: 'user', content: 'Hi' }], tools: [weather] })
    .then(
      () => null,
      (error: { code?: string }) => error.code,
    );
  assert.is(failed, 'stream_truncated');
  await close();
});

test('a text to continue reaches a provider that has only chats as a message', async () => {
  const { client, chats, close } = await boot((x) =>
    x.received.method === 'GET' ? x.reply(200, { data: [{ id: 'm' }] }) : void x.answer('a time'),
  );
  const { choices } = await client.completions.create({ model: 'lan/m', prompt: 'Once upon' });
  assert.is(choices[0]?.text, 'a time');
  assert.equal(
    chats().map(({ body }) => (JSON.parse(String(body)) as { messages: unknown }).messages),
    [[{ role: 'user', content: 'Once upon' }]],
  );
  await close();
});

test.run();
