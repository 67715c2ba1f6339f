import { Ollama } from 'ollama';
import {
  attempt,
  expect,
  includes,
  SVC_MODEL_ID as model,
  SVC_EMBEDDING_ID,
  SVC_THINKING_ID,
  SVC_TOKEN,
  SVC_URL,
  says,
} from './cases.mjs';

const client = new Ollama({ host: SVC_URL, headers: { Authorization: `Bearer ${SVC_TOKEN}` } });
const messages = [{ role: 'user', content: 'hello there' }];
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [
  { type: 'function', function: { name: 'weather', description: 'd', parameters: schema } },
];

await attempt('chat', async () => {
  const { message, done_reason, eval_count } = await client.chat({ model, messages });
  says([message.content, done_reason, eval_count], ['You said: hello there', 'stop', 4]);
});
await attempt('chat, streamed', async () => {
  let text = '';
  for await (const part of await client.chat({ model, messages, stream: true }))
    text += part.message.content;
  says(text, 'You said: hello there');
});
await attempt('generate', async () =>
  says((await client.generate({ model, prompt: 'hello there' })).response, 'You said: hello there'),
);
await attempt('a tool call and its result', async () => {
  const { message } = await client.chat({ model, messages, tools });
  says(message.tool_calls[0].function.arguments, { city: 'Paris' });
  const next = await client.chat({
    model,
    tools,
    messages: [...messages, message, { role: 'tool', tool_name: 'weather', content: 'rain' }],
  });
  says(next.message.content, 'The tool said: rain');
});
await attempt('thinking', async () =>
  includes(
    (await client.chat({ model: SVC_THINKING_ID, messages, think: true })).message.thinking,
    'think',
  ),
);
await attempt('a format', async () =>
  says(JSON.parse((await client.chat({ model, messages, format: schema })).message.content), {
    city: 'Paris',
  }),
);
await attempt('options of the documentation', async () => {
  const options = {
    num_ctx: 2048,
    repeat_last_n: 33,
    typical_p: 0.7,
    temperature: 0.8,
    seed: 42,
    num_predict: 100,
    stop: ['\n'],
    mirostat: 0,
    numa: false,
  };
  expect(
    (await client.generate({ model, prompt: 'hello there', options, keep_alive: '5m' })).done,
    true,
  );
});
await attempt('embed', async () =>
  expect((await client.embed({ model: SVC_EMBEDDING_ID, input: ['a', 'b'] })).embeddings.length, 2),
);
await attempt('list', async () => {
  const { models } = await client.list();
  expect(
    models.every(({ digest, name }) => /^[0-9a-f]{64}$/.test(digest) && name.length > 0),
    true,
    'each digest',
  );
});
await attempt('show', async () =>
  expect((await client.show({ model })).capabilities.includes('completion'), true),
);
await attempt('ps', async () => expect(Array.isArray((await client.ps()).models), true));
await attempt('version', async () => expect(typeof (await client.version()).version, 'string'));
await attempt('copy and delete', async () => {
  await client.copy({ source: model, destination: 'my-copy' });
  says(
    (await client.chat({ model: 'my-copy', messages })).message.content,
    'You said: hello there',
  );
  await client.delete({ model: 'my-copy' });
});
await attempt('an unknown model is a 404', async () => {
  const error = await client.chat({ model: 'up/none', messages }).then(
    () => null,
    (thrown) => thrown,
  );
  expect(error?.status_code, 404);
});
