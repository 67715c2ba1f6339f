import { embedMany, generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  attempt,
  expect,
  includes,
  PNG,
  SVC_EMBEDDING_ID,
  SVC_MODEL_ID,
  SVC_THINKING_ID,
  SVC_TOKEN,
  SVC_URL,
} from './cases.mjs';

const [, , name] = process.argv;
const settings = {
  name: 'svc',
  baseURL: `${SVC_URL}/v1`,
  apiKey: SVC_TOKEN,
  supportsStructuredOutputs: true,
};
const library = await import(name);
const make = library.createOpenAI ?? library.createOpenAICompatible ?? library.createAnthropic;
const provider =
  make?.(settings) ??
  library.createOllama({
    baseURL: `${SVC_URL}/api`,
    headers: { Authorization: `Bearer ${SVC_TOKEN}` },
  });
const forms =
  name === '@ai-sdk/openai' ? { responses: provider, chat: provider.chat } : { '': provider };

for (const [form, of] of Object.entries(forms)) {
  const model = of(SVC_MODEL_ID);
  const in_ = form === '' ? '' : `, ${form}`;
  const weather = tool({
    description: 'd',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  });
  const prompt = 'hello there';
  const called = { model, prompt: 'call weather', tools: { weather }, stopWhen: stepCountIs(3) };
  await attempt(`text${in_}`, async () => {
    const { text, finishReason, usage } = await generateText({ model, prompt });
    expect([text, finishReason, usage.outputTokens], ['You said: hello there', 'stop', 4]);
  });
  await attempt(`stream${in_}`, async () => {
    const { textStream } = streamText({ model, prompt });
    let text = '';
    for await (const part of textStream) text += part;
    expect(text, 'You said: hello there');
  });
  await attempt(`tools${in_}`, async () =>
    includes((await generateText(called)).text, 'rain in Paris'),
  );
  await attempt(`tools in a stream${in_}`, async () => {
    const parts = [];
    const { fullStream, text } = streamText(called);
    for await (const part of fullStream) parts.push(part.type);
    includes(await text, 'rain in Paris');
    expect(parts.indexOf('tool-call') > 0, true);
    expect(
      parts.slice(0, parts.indexOf('tool-call')).includes('text-start'),
      false,
      'an empty text before the call',
    );
  });
  await attempt(`object${in_}`, async () => {
    const { object } = await generateObject({
      model,
      prompt,
      schema: z.object({ city: z.string(), people: z.number() }),
    });
    expect(object, { city: 'Paris', people: 2 });
  });
  await attempt(`image${in_}`, async () => {
    const content = [
      { type: 'text', text: 'what?' },
      { type: 'image', image: PNG, mediaType: 'image/png' },
    ];
    includes(
      (await generateText({ model, messages: [{ role: 'user', content }] })).text,
      '[image]',
    );
  });
  await attempt(`settings${in_}`, async () => {
    const { text } = await generateText({
      model,
      prompt,
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 2,
      stopSequences: form === 'responses' ? undefined : ['END'],
    });
    expect(text, 'You said: ');
  });
  await attempt(`reasoning${in_}`, async () => {
    const { text, reasoningText } = await generateText({
      model: of(SVC_THINKING_ID),
      prompt,
      providerOptions: { ollama: { think: true } },
    });
    expect(text, 'You said: hello there');
    if (name !== '@ai-sdk/openai') includes(reasoningText, 'think');
  });
}
const embedding = (provider.textEmbeddingModel ?? provider.embeddingModel)?.bind(provider);
if (name !== '@ai-sdk/anthropic')
  await attempt('embeddings', async () => {
    const { embeddings } = await embedMany({
      model: embedding(SVC_EMBEDDING_ID),
      values: ['a', 'b'],
    });
    expect(
      embeddings.map(({ length }) => length),
      [8, 8],
    );
  });
