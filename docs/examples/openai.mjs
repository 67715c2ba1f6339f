import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.SVC_URL ?? 'http://127.0.0.1:4780'}/v1`,
  apiKey: process.env.SVC_TOKEN,
});

const stream = await client.chat.completions.create({
  model: 'local/svc-mini',
  messages: [{ role: 'user', content: 'What is a run?' }],
  stream: true,
});
for await (const { choices } of stream) process.stdout.write(choices[0]?.delta.content ?? '');
process.stdout.write('\n');
