import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome, PROGRAM } from '../helpers/svc.ts';

/** The built program as a server of MCP, asked with the official client. */

const test = suite<{ home: Home }>('svc as a tool server');
test.before((context) => {
  context.home = makeHome();
});
test.after(({ home }) => home.close());

const textOf = (result: unknown) =>
  (result as { content: { text: string }[] }).content.map(({ text }) => text).join('');

async function tryTools(client: Client): Promise<void> {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  for (const name of ['ask', 'list_models', 'list_providers', 'search_runs', 'show_run', 'status'])
    assert.ok(names.includes(name), name);
  const ask = tools.find(({ name }) => name === 'ask');
  assert.equal([ask?.inputSchema.required, ask?.annotations?.readOnlyHint], [['prompt'], false]);
  const steps: number[] = [];
  const asked = await client.callTool(
    { name: 'ask', arguments: { prompt: 'What is 2 plus 3?', max_tokens: 8 } },
    { onprogress: ({ progress }) => steps.push(progress) },
  );
  assert.is(asked.isError ?? false, false, textOf(asked));
  const id = /Run (run_\w+), model/.exec(textOf(asked))?.[1] ?? '';
  assert.ok(steps.length > 0 && (steps.at(-1) ?? 0) > 0, 'progress');
  const shown = JSON.parse(textOf(await client.callTool({ name: 'show_run', arguments: { id } })));
  assert.equal([shown.id, shown.state], [id, 'completed']);
  const listed = await client.callTool({ name: 'list_runs', arguments: { limit: 1 } });
  assert.is(JSON.parse(textOf(listed)).runs[0].id, id);
  const wrong = await client.callTool({ name: 'show_run', arguments: { id: 'run_none', x: 1 } });
  assert.is(wrong.isError, true);
  assert.match(textOf(wrong), /"x".*invalid_request/);
  const unknown = await client.callTool({ name: 'show_run', arguments: { id: 'run_none' } });
  assert.match(textOf(unknown), /run_unknown/);
  const none = await client.callTool({ name: 'none' }).catch((error: Error) => error.message);
  assert.match(String(none), /There is no none/);
}

test('svc mcp serve starts the daemon, and offers its operations and the doctor', async ({
  home,
}) => {
  const client = new Client({ name: 'test', version: '1' });
  const env = Object.fromEntries(
    Object.entries(home.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const args = [PROGRAM, 'mcp', 'serve'];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env }));
  try {
    await tryTools(client);
    const doctor = JSON.parse(textOf(await client.callTool({ name: 'doctor' })));
    assert.ok(doctor.checks.length > 10);
  } finally {
    await client.close();
  }
});

test('POST /mcp offers the same, and a token needs what each operation needs', async ({ home }) => {
  const { addresses } = JSON.parse((await home.svc(['start', '--json'])).stdout);
  const { token } = JSON.parse((await home.svc(['token', '--json'])).stdout);
  const connected = async (bearer: string) => {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${bearer}` } };
    const url = new URL(`${addresses.http}/mcp`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    return client;
  };
  const client = await connected(token);
  await tryTools(client);
  await client.close();
  const create = ['token', 'create', '--name', 'reader', '--scope', 'read', '--json'];
  const reader = await connected(JSON.parse((await home.svc(create)).stdout).token);
  const asked = await reader.callTool({ name: 'ask', arguments: { prompt: 'x' } });
  assert.is(asked.isError, true);
  assert.match(textOf(asked), /scope_insufficient/);
  const listed = await reader.callTool({ name: 'list_runs', arguments: {} });
  assert.is(listed.isError ?? false, false);
  await reader.close();
  const none = await connected('none').catch((error: Error) => error.message);
  assert.match(String(none), /401|unauthori/i);
});

test.run();
