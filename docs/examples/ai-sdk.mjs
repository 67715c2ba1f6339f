import { createOpenAI } from '@ai-sdk/openai';
import { streamText } from 'ai';

const svc = createOpenAI({
  baseURL: `${process.env.SVC_URL ?? 'http://127.0.0.1:4780'}/v1`,
  apiKey: process.env.SVC_TOKEN,
});

const { textStream } = streamText({
  model: svc.chat('local/svc-mini'),
  prompt: 'What is a run?',
  onError: ({ error }) => {
    console.error(error);
    process.exitCode = 1;
  },
});
for await (const text of textStream) process.stdout.write(text);
process.stdout.write('\n');
