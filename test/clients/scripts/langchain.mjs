import { tool } from '@langchain/core/tools';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { createAgent } from 'langchain';
import { z } from 'zod';
import {
  attempt,
  expect,
  includes,
  SVC_EMBEDDING_ID,
  SVC_MODEL_ID,
  SVC_TOKEN,
  SVC_URL,
} from './cases.mjs';

const apiKey = SVC_TOKEN;
const configuration = { baseURL: `${SVC_URL}/v1` };
const ofOpenAi = { model: SVC_MODEL_ID, apiKey, configuration, maxRetries: 0 };
const ofOllama = { baseUrl: SVC_URL, headers: { Authorization: `Bearer ${SVC_TOKEN}` } };
const models = {
  chat: new ChatOpenAI({ ...ofOpenAi, streamUsage: true }),
  responses: new ChatOpenAI({ ...ofOpenAi, useResponsesApi: true }),
  ollama: new ChatOllama({ ...ofOllama, model: SVC_MODEL_ID, maxRetries: 0 }),
};
const place = z.object({ city: z.string(), people: z.number() });
const weather = tool(({ city }) => `rain in ${city}`, {
  name: 'weather',
  description: 'The weather of a city.',
  schema: z.object({ city: z.string() }),
});

for (const [name, model] of Object.entries(models)) {
  await attempt(`${name}: text`, async () => {
    const answer = await model.invoke('hello there');
    expect([answer.text, answer.usage_metadata.output_tokens], ['You said: hello there', 4]);
  });
  await attempt(`${name}: stream`, async () => {
    let text = '';
    for await (const part of await model.stream('hello there')) text += part.text;
    expect(text, 'You said: hello there');
  });
  await attempt(`${name}: a tool call`, async () => {
    const { tool_calls } = await model.bindTools([weather]).invoke('call weather');
    expect([tool_calls[0].name, tool_calls[0].args], ['weather', { city: 'Paris' }]);
  });
  await attempt(`${name}: an agent calls a tool`, async () => {
    const agent = createAgent({ model, tools: [weather] });
    const { messages } = await agent.invoke({ messages: [['user', 'call weather']] });
    includes(messages.at(-1).text, 'The tool said: rain in Paris');
  });
  await attempt(`${name}: an answer of a schema`, async () => {
    const answers = model.withStructuredOutput(place, { method: 'jsonSchema' });
    expect(await answers.invoke('hello there'), { city: 'Paris', people: 2 });
  });
  await attempt(`${name}: several at once`, async () => {
    const answers = await model.batch(['one', 'two', 'three']);
    expect(
      answers.map(({ text }) => text),
      ['You said: one', 'You said: two', 'You said: three'],
    );
  });
  await attempt(`${name}: a stream that the client ends`, async () => {
    const ending = new AbortController();
    const parts = await model.stream('hello there', { signal: ending.signal });
    await parts.next();
    ending.abort();
    const { message } = await parts.next().then(
      () => ({ message: 'no error' }),
      (error) => error,
    );
    includes(message.toLowerCase(), 'abort');
  });
  await attempt(`${name}: an unknown model is a 404`, async () => {
    const other = new model.constructor({
      ...(name === 'ollama' ? ofOllama : ofOpenAi),
      useResponsesApi: name === 'responses',
      model: 'up/none',
      maxRetries: 0,
    });
    const error = await other.invoke('x').catch((thrown) => thrown);
    expect(error.status ?? error.status_code, 404);
  });
}

await attempt('embeddings', async () => {
  const vectors = new OpenAIEmbeddings({ model: SVC_EMBEDDING_ID, apiKey, configuration });
  const found = await vectors.embedDocuments(['a', 'b']);
  expect(
    found.map(({ length }) => length),
    [8, 8],
  );
});
await attempt('embeddings, ollama', async () => {
  const vectors = new OllamaEmbeddings({ ...ofOllama, model: SVC_EMBEDDING_ID });
  expect((await vectors.embedQuery('a')).length, 8);
});
