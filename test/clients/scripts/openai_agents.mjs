import {
  Agent,
  hostedMcpTool,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
  tool,
} from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { attempt, expect, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';

setTracingDisabled(true);
const client = new OpenAI({ baseURL: `${SVC_URL}/v1`, apiKey: SVC_TOKEN, maxRetries: 0 });
const agent = (tools = []) =>
  new Agent({ name: 'a', model: new OpenAIResponsesModel(client, SVC_MODEL_ID), tools });
const runner = new Runner({ tracingDisabled: true });
const weather = tool({
  name: 'weather',
  description: 'd',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `rain in ${city}`,
});
const desk = () => agent([hostedMcpTool({ serverLabel: 'desk', requireApproval: 'always' })]);
const BLUE = "desk__echo 'blue'";

await attempt('text', async () => {
  expect((await runner.run(agent(), 'hello there')).finalOutput, 'You said: hello there');
});
await attempt('a tool', async () => {
  includes((await runner.run(agent([weather]), 'call weather')).finalOutput, 'rain in Paris');
});
await attempt('a tool of a server, approved', async () => {
  const asked = await runner.run(desk(), BLUE);
  expect(asked.interruptions.length, 1);
  for (const wish of asked.interruptions) asked.state.approve(wish);
  expect((await runner.run(desk(), asked.state)).finalOutput, 'The tool said: blue');
});
await attempt('a tool of a server, streamed and rejected', async () => {
  const asked = await runner.run(desk(), BLUE, { stream: true });
  await asked.completed;
  for (const wish of asked.interruptions) asked.state.reject(wish);
  const answered = await runner.run(desk(), asked.state, { stream: true });
  await answered.completed;
  includes(answered.finalOutput, 'denied');
});
await attempt('a tool of a server, approved at once by a function', async () => {
  const approves = hostedMcpTool({
    serverLabel: 'desk',
    requireApproval: 'always',
    onApproval: async () => ({ approve: true }),
  });
  expect((await runner.run(agent([approves]), BLUE)).finalOutput, 'The tool said: blue');
});
await attempt('a tool of a trusted server', async () => {
  const shelf = hostedMcpTool({ serverLabel: 'shelf' });
  expect((await runner.run(agent([shelf]), "shelf__echo 'red'")).finalOutput, 'The tool said: red');
});
