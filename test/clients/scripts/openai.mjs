import { execFileSync } from 'node:child_process';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  attempt,
  expect,
  includes,
  SVC_MODEL_ID as model,
  PNG,
  required,
  SVC_EMBEDDING_ID,
  SVC_THINKING_ID,
  SVC_TOKEN,
  SVC_URL,
  says,
} from './cases.mjs';

const client = new OpenAI({ baseURL: `${SVC_URL}/v1`, apiKey: SVC_TOKEN, maxRetries: 0 });
const hi = { model, messages: [{ role: 'user', content: 'hello there' }] };
const Place = z.object({ city: z.string(), people: z.number() });
const weather = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const failure = async (asked) => {
  const error = await asked.then(
    () => null,
    (thrown) => thrown,
  );
  return [error?.constructor.name, error?.status];
};

await attempt('chat', async () => {
  const { choices, usage } = await client.chat.completions.create(hi);
  says(choices[0].message.content, 'You said: hello there');
  says([choices[0].finish_reason, usage.completion_tokens], ['stop', 4]);
});
await attempt('chat, streamed with usage', async () => {
  const stream = await client.chat.completions.create({
    ...hi,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let last;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    last = chunk;
  }
  says([text, last.usage.completion_tokens], ['You said: hello there', 4]);
});
await attempt('the helper of streams', async () => {
  const stream = client.chat.completions.stream(hi);
  says(await stream.finalContent(), 'You said: hello there');
});
await attempt('reasoning beside the answer', async () => {
  const { choices } = await client.chat.completions.create({ ...hi, model: SVC_THINKING_ID });
  includes(choices[0].message.reasoning_content, 'think');
});
await attempt('a tool call in a stream', async () => {
  const stream = client.chat.completions.stream({
    ...hi,
    tools: [weather],
    ...required('required'),
  });
  const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0];
  expect([finish_reason, message.content], ['tool_calls', null]);
  says(JSON.parse(message.tool_calls[0].function.arguments), { city: 'Paris' });
});
await attempt('the tool runner', async () => {
  const runner = client.chat.completions.runTools({
    model,
    messages: [{ role: 'user', content: 'call weather twice' }],
    tools: [
      {
        type: 'function',
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: ({ city }) => `rain in ${city}`,
        },
      },
    ],
  });
  says(await runner.finalContent(), 'The tool said: rain in Paris');
});
await attempt('parse of a schema', async () => {
  const { choices } = await client.chat.completions.parse({
    ...hi,
    response_format: zodResponseFormat(Place, 'place'),
  });
  says(choices[0].message.parsed, { city: 'Paris', people: 2 });
});
await attempt('an image', async () => {
  const content = [
    { type: 'text', text: 'what?' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
  ];
  const { choices } = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content }],
  });
  includes(choices[0].message.content, '[image]');
});
await attempt('log probabilities', async () => {
  const { choices } = await client.chat.completions.create({ ...hi, logprobs: true });
  says(choices[0].logprobs.content.length, 4);
});
await attempt('a length', async () => {
  const { choices } = await client.chat.completions.create({ ...hi, max_completion_tokens: 2 });
  expect(choices[0].finish_reason, 'length');
  says(choices[0].message.content, 'You said: ');
});
await attempt('a response', async () => {
  const { output_text, usage } = await client.responses.create({ model, input: 'hello there' });
  says([output_text, usage.output_tokens], ['You said: hello there', 4]);
});
await attempt('a response, streamed', async () => {
  const stream = client.responses.stream({ model, input: 'hello there' });
  says((await stream.finalResponse()).output_text, 'You said: hello there');
});
await attempt('a response of a schema', async () => {
  const { output_parsed } = await client.responses.parse({
    model,
    input: 'x',
    text: { format: zodTextFormat(Place, 'place') },
  });
  says(output_parsed, { city: 'Paris', people: 2 });
});
await attempt('a response with a tool, and the response after it', async () => {
  const tools = [
    { type: 'function', name: 'weather', strict: false, parameters: weather.function.parameters },
  ];
  const first = await client.responses.create({
    model,
    input: 'call weather',
    tools,
    ...required('required'),
  });
  const call = first.output.find(({ type }) => type === 'function_call');
  const input = [{ type: 'function_call_output', call_id: call.call_id, output: 'rain' }];
  const second = await client.responses.create({
    model,
    input,
    tools,
    previous_response_id: first.id,
  });
  says(second.output_text, 'The tool said: rain');
});
await attempt('a response in the background', async () => {
  let response = await client.responses.create({ model, input: 'hello there', background: true });
  while (['queued', 'in_progress'].includes(response.status))
    response = await client.responses.retrieve(response.id);
  says(response.output_text, 'You said: hello there');
});
const desk = [{ type: 'mcp', server_label: 'desk', allowed_tools: ['echo'] }];
const toolOf = (output, type) => output.find((item) => item.type === type);
const approvalOf = ({ id, output }, approve = true) => ({
  model,
  tools: desk,
  previous_response_id: id,
  input: [
    {
      type: 'mcp_approval_response',
      approval_request_id: toolOf(output, 'mcp_approval_request').id,
      approve,
    },
  ],
});
const ofServers = async (name, work) => {
  // A real model may call no tool.
  if (process.env.SVC_REAL === undefined) await attempt(name, work);
};
await ofServers('a tool of a server, approved', async () => {
  const input = "desk__echo 'blue'";
  const first = await client.responses.create({ model, input, tools: desk });
  expect(
    toolOf(first.output, 'mcp_list_tools').tools.map((tool) => tool.name),
    ['echo'],
  );
  expect(first.output.at(-1).type, 'mcp_approval_request');
  const second = await client.responses.create(approvalOf(first));
  expect(toolOf(second.output, 'mcp_call').output, 'blue');
  expect(second.output_text, 'The tool said: blue');
  expect((await client.responses.retrieve(second.id)).output, second.output);
});
await ofServers('a tool of a server, streamed and denied', async () => {
  const input = "desk__echo 'blue'";
  const first = await client.responses.stream({ model, input, tools: desk }).finalResponse();
  const seen = [];
  const stream = client.responses.stream(approvalOf(first, false));
  for await (const { type } of stream) seen.push(type);
  expect(seen.includes('response.mcp_call.failed'), true);
  const { output } = await stream.finalResponse();
  includes(JSON.stringify(toolOf(output, 'mcp_call').error), 'A person denied it.');
});
await ofServers('a tool of a trusted server is called at once', async () => {
  const tools = [{ type: 'mcp', server_label: 'shelf', require_approval: 'never' }];
  const { output } = await client.responses.create({ model, input: "shelf__echo 'red'", tools });
  expect(toolOf(output, 'mcp_call').output, 'red');
});
await ofServers('a token with run asks for a tool, and cannot approve it', async () => {
  const { SVC_PROGRAM, SVC_HOME_FOLDER } = process.env;
  const words = ['token', 'create', '--name', 'worker', '--scope', 'run'];
  const env = { ...process.env, SVC_HOME: SVC_HOME_FOLDER };
  const apiKey = execFileSync(process.execPath, [SVC_PROGRAM, ...words], { env })
    .toString()
    .trim();
  const worker = new OpenAI({ baseURL: `${SVC_URL}/v1`, apiKey, maxRetries: 0 });
  const first = await worker.responses.create({ model, input: "desk__echo 'x'", tools: desk });
  const refused = await worker.responses.create(approvalOf(first)).catch((error) => error);
  expect([refused.constructor.name, refused.status], ['PermissionDeniedError', 403]);
  includes(refused.message, 'approve');
  const call = first.id.replace('resp_', 'run_');
  execFileSync(process.execPath, [SVC_PROGRAM, 'approvals', 'allow', `${call}.1`], { env });
  includes((await worker.responses.create(approvalOf(first))).output_text, 'The tool said: x');
});
await ofServers('a server that svc does not have is refused', async () => {
  const refused = (more) =>
    client.responses
      .create({ model, input: 'x', tools: [{ ...desk[0], ...more }] })
      .catch((error) => error);
  const unknown = await refused({ server_label: 'none' });
  expect(unknown.status < 500, true);
  includes(unknown.message, 'shelf');
  includes((await refused({ server_url: 'https://example.org/mcp' })).message, 'svc mcp add');
});
await attempt('tokens of an input', async () => {
  const { input_tokens } = await client.responses.inputTokens.count({
    model,
    input: 'hello there',
  });
  expect(input_tokens > 0, true);
});
await attempt('a conversation with items', async () => {
  const { id } = await client.conversations.create({
    metadata: { topic: 'a' },
    items: [{ type: 'message', role: 'user', content: 'first' }],
  });
  await client.responses.create({ model, input: 'second', conversation: id });
  const items = [];
  for await (const item of client.conversations.items.list(id, { order: 'asc' }))
    items.push(item.role);
  expect(items, ['user', 'user', 'assistant']);
  expect((await client.conversations.delete(id)).deleted, true);
});
await attempt('embeddings', async () => {
  const { data } = await client.embeddings.create({
    model: SVC_EMBEDDING_ID,
    input: ['a', 'b'],
    dimensions: 4,
  });
  expect(
    data.map(({ embedding }) => embedding.length),
    [4, 4],
  );
});
await attempt('embeddings of token ids', async () => {
  const { data } = await client.embeddings.create({ model: SVC_EMBEDDING_ID, input: [[1, 2, 3]] });
  expect(data.length, 1);
});
await attempt('models', async () => {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  expect(ids.includes(model), true);
  expect((await client.models.retrieve(model)).id, model);
});
await attempt('the older completion', async () => {
  const { choices } = await client.completions.create({ model, prompt: 'hello there' });
  includes(choices[0].text, 'hello');
});
await attempt('the id of a request', async () => {
  const { request_id } = await client.chat.completions.create(hi).withResponse();
  expect(typeof request_id, 'string');
});
await attempt('errors have their class', async () => {
  const create = (more, key = SVC_TOKEN) =>
    failure(
      new OpenAI({ baseURL: `${SVC_URL}/v1`, apiKey: key, maxRetries: 0 }).chat.completions.create({
        ...hi,
        ...more,
      }),
    );
  expect(await create({}, 'wrong'), ['AuthenticationError', 401]);
  expect(await create({ model: 'up/none' }), ['NotFoundError', 404]);
  expect(await create({ temperature: 9 }), ['BadRequestError', 400]);
});
await attempt('fields of a neighbour are left out', async () => {
  const { response } = await client.chat.completions
    .create({ ...hi, cache_prompt: true })
    .withResponse();
  expect(response.headers.get('x-svc-ignored'), 'cache_prompt');
});
