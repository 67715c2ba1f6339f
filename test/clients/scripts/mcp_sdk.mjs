import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { attempt, expect, includes, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';

const { SVC_PROGRAM, SVC_HOME_FOLDER } = process.env;
const headers = { authorization: `Bearer ${SVC_TOKEN}` };
const TRANSPORTS = {
  'svc mcp serve': () =>
    new StdioClientTransport({
      command: process.execPath,
      args: [SVC_PROGRAM, 'mcp', 'serve'],
      env: { ...process.env, SVC_HOME: SVC_HOME_FOLDER },
    }),
  'POST /mcp': () =>
    new StreamableHTTPClientTransport(new URL(`${SVC_URL}/mcp`), { requestInit: { headers } }),
};
const textOf = ({ content }) => content.map(({ text }) => text).join('');

for (const [name, transport] of Object.entries(TRANSPORTS)) {
  const client = new Client({ name: 'tried', version: '1' });
  await attempt(`${name}: it connects, and lists its tools`, async () => {
    await client.connect(transport());
    const { tools } = await client.listTools();
    expect(tools.filter(({ name: tool }) => tool === 'ask').length, 1, 'ask');
  });
  await attempt(`${name}: an answer with progress`, async () => {
    const steps = [];
    const prompt = 'say hello there, one two three four five six seven eight';
    const asked = await client.callTool(
      { name: 'ask', arguments: { prompt, model: SVC_MODEL_ID } },
      undefined,
      { onprogress: ({ progress }) => steps.push(progress) },
    );
    includes(textOf(asked), `You said: ${prompt}`);
    expect(steps.length > 0, true, `progress ${steps}`);
  });
  await attempt(`${name}: arguments that do not fit`, async () => {
    const wrong = await client.callTool({ name: 'ask', arguments: { prompt: 5 } });
    expect(wrong.isError, true, 'isError');
    includes(textOf(wrong), 'prompt');
  });
  await attempt(`${name}: a call that is cancelled`, async () => {
    const control = new AbortController();
    const asked = client.callTool(
      { name: 'ask', arguments: { prompt: 'say hello', model: SVC_MODEL_ID } },
      undefined,
      { signal: control.signal },
    );
    control.abort();
    const why = await asked.then(
      () => 'it was answered',
      () => 'it was cancelled',
    );
    expect(why, 'it was cancelled');
    await client.listTools();
  });
  await client.close();
}
