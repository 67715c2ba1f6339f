import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { ToolLister } from '../../src/tools/tool-list.ts';
import { failure } from '../helpers/failure.ts';
import { bootToolServers } from '../helpers/tool-servers.ts';
import { INTRODUCTION, webTools } from '../helpers/web-tools.ts';

/** Forms that tool servers send, and that the schema of MCP does not have. */

const ends: (() => Promise<unknown> | unknown)[] = [];
test.after.each(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const soon = () => AbortSignal.timeout(60_000);
const call = () => ({ id: 'call_1', signal: soon(), timeout_ms: 30_000 });

const EMPTY = { type: 'object' };
const odd = { name: 'odd', inputSchema: EMPTY };
const long = `${'x'.repeat(200)}`;

/** A tool, and its schema, or why it is left out. */
const forms: [string, unknown, object | string][] = [
  ['a schema that is empty', { name: 'odd', inputSchema: {} }, EMPTY],
  ['no schema', { name: 'odd' }, EMPTY],
  ['a schema that is null', { name: 'odd', inputSchema: null }, EMPTY],
  ['a schema that is true', { name: 'odd', inputSchema: true }, EMPTY],
  [
    'a schema without a type',
    { name: 'odd', inputSchema: { properties: { a: {} } } },
    { type: 'object', properties: { a: {} } },
  ],
  [
    'a schema of several types',
    { name: 'odd', inputSchema: { type: ['object', 'null'], required: ['a'] } },
    { type: 'object', required: ['a'] },
  ],
  [
    'properties and required that are null',
    { name: 'odd', inputSchema: { type: 'object', properties: null, required: null } },
    EMPTY,
  ],
  ['a title that is null', { ...odd, title: null }, EMPTY],
  ['a description that is null', { ...odd, description: null }, EMPTY],
  ['a description that is a number', { ...odd, description: 5 }, EMPTY],
  ['annotations that are null', { ...odd, annotations: null }, EMPTY],
  ['annotations that are a text', { ...odd, annotations: 'readOnlyHint' }, EMPTY],
  ['a hint that is a text', { ...odd, annotations: { readOnlyHint: 'true' } }, EMPTY],
  ['an output schema that is null', { ...odd, outputSchema: null }, EMPTY],
  ['an output schema of a list', { ...odd, outputSchema: { type: 'array' } }, EMPTY],
  ['an output schema that is a list', { ...odd, outputSchema: [] }, EMPTY],
  ['_meta that is null', { ...odd, _meta: null }, EMPTY],
  ['icons that are a text', { ...odd, icons: 'icon.png' }, EMPTY],
  ['execution that is null', { ...odd, execution: null }, EMPTY],
  [
    'a schema of a text',
    { name: 'odd', inputSchema: { type: 'string' } },
    'the schema of odd is not that of an object',
  ],
  [
    'a schema that is false',
    { name: 'odd', inputSchema: false },
    'the schema of odd is not that of an object',
  ],
  [
    'a schema that is a list',
    { name: 'odd', inputSchema: [] },
    'the schema of odd is not that of an object',
  ],
  ['no name', { inputSchema: EMPTY }, 'tool 1 of the list has no name'],
  ['a name that is null', { ...odd, name: null }, 'tool 1 of the list has no name'],
  [
    'a name that is a number',
    { ...odd, name: 5 },
    'tool 1 of the list has a name that is not text',
  ],
  [
    'a name with a space',
    { ...odd, name: 'do it\u202e' },
    'tool 1 of the list has the name "do it\ufffd", which models do not take',
  ],
  [
    'a long name',
    { ...odd, name: long },
    `tool 1 of the list has the name "${long.slice(0, 80)}", which models do not take`,
  ],
  ['null in its place', null, 'tool 1 of the list is not an object'],
  ['a text in its place', 'odd', 'tool 1 of the list is not an object'],
];

for (const [what, tool, expected] of forms)
  test(`a tool with ${what} ${typeof expected === 'string' ? 'is left out by name' : 'is used'}`, () => {
    const lister = new ToolLister('x', defaultLimits);
    lister.add(tool);
    lister.add({ name: 'good', inputSchema: EMPTY });
    const { tools, left_out } = lister.list;
    const names = typeof expected === 'string' ? ['good'] : ['odd', 'good'];
    assert.equal(
      tools.map(({ tool: name }) => name),
      names,
    );
    assert.equal(left_out, typeof expected === 'string' ? [expected] : []);
    if (typeof expected === 'string') return;
    const [first] = tools;
    assert.equal([first?.schema, first?.description], [expected, null]);
    assert.equal([first?.read_only, first?.destructive], [false, true]);
  });

test('null and absent are the same tool', () => {
  const digestOf = (tool: object) => {
    const lister = new ToolLister('x', defaultLimits);
    lister.add(tool);
    return lister.list.tools[0]?.digest;
  };
  const plain = digestOf(odd);
  for (const [, tool, expected] of forms)
    if (expected === EMPTY && !/text/.test(JSON.stringify(tool)))
      if (!Object.hasOwn(tool as object, 'annotations'))
        assert.is(digestOf(tool as object), plain, JSON.stringify(tool));
});

test('the reasons for tools that are left out have a bound', () => {
  const lister = new ToolLister('x', { ...defaultLimits, mcp_tools: 3 });
  for (let n = 0; n < 100; n += 1) lister.add(n);
  assert.equal(lister.list.left_out, [
    'tool 1 of the list is not an object',
    'tool 2 of the list is not an object',
    'tool 3 of the list is not an object',
    'more of its tools are left out',
  ]);
});

for (const [what, introduction, shown] of [
  ['instructions that are null', { ...INTRODUCTION, instructions: null }, 'web 1'],
  ['no version', { ...INTRODUCTION, serverInfo: { name: 'web' } }, 'web'],
  [
    'a version that is null',
    { ...INTRODUCTION, serverInfo: { name: 'web', version: null } },
    'web',
  ],
  ['no serverInfo', { ...INTRODUCTION, serverInfo: null }, null],
  [
    'prompts that are null',
    { ...INTRODUCTION, capabilities: { tools: {}, prompts: null } },
    'web 1',
  ],
  ['tools that are null', { ...INTRODUCTION, capabilities: { tools: null } }, 'web 1'],
  ['_meta that is null', { ...INTRODUCTION, _meta: null }, 'web 1'],
] as const)
  test(`a server that introduces itself with ${what} is used`, async () => {
    const web = await webTools({ initialize: ({ result }) => result(introduction) });
    const { servers, leave } = await bootToolServers({ x: { url: web.url } });
    ends.push(() => web.close(), leave);
    assert.is((await servers.tools('x', soon())).length, 1);
    assert.is(servers.list().servers[0]?.server, shown);
  });

test('one that names no version of the protocol is refused in words', async () => {
  const web = await webTools({ initialize: ({ result }) => result({ protocolVersion: null }) });
  const { servers, leave } = await bootToolServers({ x: { url: web.url } });
  ends.push(() => web.close(), leave);
  const { message } = await failure(servers.tools('x', soon()));
  assert.is(message, 'The tool server x answered in a wrong form.');
});

const UNASKED = 'it sent more than 4096 messages at once that no one asked for';
const FORMS = fileURLToPath(new URL('../fixtures/mcp/forms.mjs', import.meta.url));
const inProcess = (form: string) => ({ command: process.execPath, args: [FORMS, form] });

for (const form of [
  'a byte order mark before each line',
  'lines that end with CR LF',
  'batches',
  'lines that are no message',
  'ids as texts',
  'each answer twice',
])
  test(`a process that writes ${form} is used`, async () => {
    const { servers, leave } = await bootToolServers({ x: inProcess(form) });
    ends.push(leave);
    const { text } = await servers.call('x', 'get', {}, call());
    assert.is(text, 'got');
  });

for (const [form, reason] of [
  ['numbers', 'a message has more than 250000 numbers'],
  ['empty objects', 'a message has more than 50000 values'],
  ['levels', 'a message has more than 64 levels'],
  ['requests', 'it asked svc for more than 64 things at once'],
  ['notifications', UNASKED],
  ['many lines that are no message', UNASKED],
  ['empty lines', UNASKED],
  ['a message that is no JSON', 'it sent a message that is not JSON'],
] as const)
  test(`a process that answers with ${form} is ended by name`, async () => {
    const { servers, leave } = await bootToolServers({ x: inProcess(form) });
    ends.push(leave);
    const { code, message } = await failure(servers.tools('x', soon()));
    const expected = `The tool server x was ended: ${reason}.`;
    assert.equal([code, message], ['mcp_unavailable', expected]);
  });

test.run();
