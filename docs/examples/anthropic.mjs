import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({
  baseURL: process.env.SVC_URL ?? 'http://127.0.0.1:4780',
  apiKey: process.env.SVC_TOKEN,
});

const { content } = await client.messages.create({
  model: 'local/svc-mini',
  max_tokens: 200,
  messages: [{ role: 'user', content: 'What is a run?' }],
});
for (const block of content) if (block.type === 'text') console.log(block.text);
