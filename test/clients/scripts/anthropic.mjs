import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { z } from 'zod';
import {
  attempt,
  expect,
  includes,
  SVC_MODEL_ID as model,
  PNG,
  required,
  SVC_THINKING_ID,
  SVC_TOKEN,
  SVC_URL,
  says,
} from './cases.mjs';

const client = new Anthropic({ baseURL: SVC_URL, apiKey: SVC_TOKEN, maxRetries: 0 });
const hi = { model, max_tokens: 50, messages: [{ role: 'user', content: 'hello there' }] };
const tool = (run) =>
  betaZodTool({
    name: 'weather',
    description: 'd',
    inputSchema: z.object({ city: z.string() }),
    run,
  });
const failure = async (asked) => {
  const error = await asked.then(
    () => null,
    (thrown) => thrown,
  );
  return [error?.constructor.name, error?.status];
};

await attempt('a message', async () => {
  const { content, stop_reason, usage } = await client.messages.create(hi);
  says(content, [{ type: 'text', text: 'You said: hello there' }]);
  says([stop_reason, usage.output_tokens], ['end_turn', 4]);
});
await attempt('a message, streamed', async () => {
  const stream = client.messages.stream(hi);
  let first;
  stream.on('streamEvent', (event) => {
    if (event.type === 'message_start') first = event.message.usage.input_tokens;
  });
  says(await stream.finalText(), 'You said: hello there');
  expect(first > 0, true, 'the tokens of the prompt at the start');
});
await attempt('thinking', async () => {
  const { content } = await client.messages.create({
    ...hi,
    model: SVC_THINKING_ID,
    max_tokens: 2000,
    thinking: { type: 'enabled', budget_tokens: 1024 },
  });
  expect(
    content.map(({ type }) => type),
    ['thinking', 'text'],
  );
});
await attempt('a tool call and its result', async () => {
  const tools = [
    {
      name: 'weather',
      input_schema: {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
      },
    },
  ];
  const first = await client.messages.create({ ...hi, tools, ...required({ type: 'any' }) });
  const call = first.content.find(({ type }) => type === 'tool_use');
  expect(first.stop_reason, 'tool_use');
  says(call.input, { city: 'Paris' });
  const result = {
    role: 'user',
    content: [{ type: 'tool_result', tool_use_id: call.id, content: 'rain' }],
  };
  const second = await client.messages.create({
    ...hi,
    tools,
    messages: [...hi.messages, { role: 'assistant', content: first.content }, result],
  });
  says(second.content[0].text, 'The tool said: rain');
});
await attempt('the tool runner', async () => {
  const message = await client.beta.messages.toolRunner({
    ...hi,
    tools: [tool(({ city }) => `rain in ${city}`)],
  });
  says(message.content[0].text, 'The tool said: rain in Paris');
});
await attempt('the tool runner, streamed', async () => {
  const runner = client.beta.messages.toolRunner({
    ...hi,
    stream: true,
    tools: [tool(({ city }) => `rain in ${city}`)],
  });
  let last;
  for await (const stream of runner) last = await stream.finalMessage();
  says(last.content[0].text, 'The tool said: rain in Paris');
});
await attempt('an image', async () => {
  const content = [
    { type: 'text', text: 'what?' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
  ];
  const {
    content: [said],
  } = await client.messages.create({ ...hi, messages: [{ role: 'user', content }] });
  includes(said.text, '[image]');
});
await attempt('a document of text', async () => {
  const content = [
    {
      type: 'document',
      title: 'Notes',
      source: { type: 'text', media_type: 'text/plain', data: 'the cat sat' },
    },
    { type: 'text', text: 'sum up' },
  ];
  const {
    content: [said],
  } = await client.messages.create({ ...hi, messages: [{ role: 'user', content }] });
  includes(said.text, 'the cat sat');
});
await attempt('caches and metadata are accepted', async () => {
  const system = [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }];
  expect(
    (await client.messages.create({ ...hi, system, metadata: { user_id: 'u' } })).role,
    'assistant',
  );
});
await attempt('tokens of a local model are counted', async () => {
  expect(
    (await client.messages.countTokens({ model: 'local/svc-mini', messages: hi.messages }))
      .input_tokens > 0,
    true,
  );
});
const shelf = {
  ...hi,
  messages: [{ role: 'user', content: "shelf__echo 'blue'" }],
  mcp_servers: [{ type: 'url', name: 'shelf', url: '' }],
  betas: ['mcp-client-2025-11-20'],
};
const kindsOf = ({ content }) => content.map(({ type }) => type);
if (process.env.SVC_REAL === undefined) {
  await attempt('a tool of a server', async () => {
    const message = await client.beta.messages.create(shelf);
    expect(kindsOf(message), ['mcp_tool_use', 'mcp_tool_result', 'text']);
    expect(message.content[1].content[0].text, 'blue');
    const messages = [...shelf.messages, { role: 'assistant', content: message.content }];
    messages.push({ role: 'user', content: 'hello there' });
    const tools = [{ type: 'mcp_toolset', mcp_server_name: 'shelf', configs: {} }];
    expect((await client.beta.messages.create({ ...shelf, messages, tools })).role, 'assistant');
  });
  await attempt('a tool of a server, streamed', async () => {
    const message = await client.beta.messages.stream(shelf).finalMessage();
    expect(kindsOf(message), ['mcp_tool_use', 'mcp_tool_result', 'text']);
    expect(message.content[0].input, { text: 'blue' });
  });
}
await attempt('models', async () => {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  expect(ids.includes(model), true);
});
await attempt('the id of a request', async () => {
  const { request_id } = await client.messages.create(hi).withResponse();
  expect(typeof request_id, 'string');
});
await attempt('errors have their class', async () => {
  const create = (more, apiKey = SVC_TOKEN) =>
    failure(
      new Anthropic({ baseURL: SVC_URL, apiKey, maxRetries: 0 }).messages.create({
        ...hi,
        ...more,
      }),
    );
  expect(await create({}, 'wrong'), ['AuthenticationError', 401]);
  expect(await create({ model: 'up/none' }), ['NotFoundError', 404]);
  expect(await create({ temperature: 9 }), ['BadRequestError', 400]);
});
