import { ChatPromptTemplate } from '@langchain/core/prompts';
import { ChatOpenAI } from '@langchain/openai';

const model = new ChatOpenAI({
  model: 'local/svc-mini',
  apiKey: process.env.SVC_TOKEN,
  configuration: { baseURL: `${process.env.SVC_URL ?? 'http://127.0.0.1:4780'}/v1` },
});

const prompt = ChatPromptTemplate.fromMessages([['human', 'What is {thing}?']]);
const { content } = await prompt.pipe(model).invoke({ thing: 'a run' });
console.log(content);
