import type OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { AttemptRequest, OutputPart } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, end, errorOf, MODEL } from './boot.ts';

/** Tools as Codex and other agents send them: free text, namespaces, and those of servers. */
const test = suite<{ real: Real; client: OpenAI }>('the tools of a response');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

const patch = {
  type: 'custom',
  name: 'apply_patch',
  description: 'Edits files.',
  format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
};
const agents = {
  type: 'namespace',
  name: 'agents',
  description: 'About agents.',
  tools: [
    { type: 'function', name: 'list', description: 'Lists.', parameters: {}, strict: false },
    { type: 'custom', name: 'say' },
  ],
};
const called = (id: string, name: string, ...pieces: string[]): OutputPart[] =>
  pieces.map((text) => ({
    type: 'output',
    kind: 'tool_call',
    text,
    token_ids: [],
    call: { id, name },
  }));
const INPUT = 'line "one"\nline two';
const written = JSON.stringify({ input: INPUT });
/** Calls all three tools, and says something once they have answered. */
const script = ({ request }: AttemptRequest) =>
  request.messages.at(-1)?.role === 'tool'
    ? [output('Done.', 1), end()]
    : [
        ...called('c1', 'apply_patch', written.slice(0, 14), written.slice(14)),
        ...called('c2', 'agents__list', '{}'),
        ...called('c3', 'agents__say', '{"input":"hi"}'),
        end('tool_calls'),
      ];
const create = (client: OpenAI, more: object) =>
  client.responses.create({
    model: MODEL,
    input: 'Work.',
    ...more,
  } as never) as Promise<OpenAI.Responses.Response>;
type Call = { type: string; name: string; namespace?: string; input?: string };

test('custom tools and namespaces are functions for the model, and come back as they were', async ({
  real,
  client,
}) => {
  real.provider.script = script;
  const first = await create(client, { tools: [patch, agents] });
  const tools = asked(real).tools ?? [];
  assert.equal(
    tools.map(({ name }) => name),
    ['apply_patch', 'agents__list', 'agents__say'],
  );
  assert.match(tools[0]?.description ?? '', 'start: "x"');
  assert.match(tools[1]?.description ?? '', 'About agents.');
  assert.equal(tools[2]?.parameters.required, ['input']);
  const [edit, list, say] = first.output as unknown as Call[];
  assert.equal([edit?.type, edit?.name, edit?.input], ['custom_tool_call', 'apply_patch', INPUT]);
  assert.equal([list?.type, list?.name, list?.namespace], ['function_call', 'list', 'agents']);
  assert.equal([say?.type, say?.name, say?.input], ['custom_tool_call', 'say', 'hi']);
  assert.equal(
    (first.tools as unknown as { type: string; name: string }[]).map(({ type, name }) => [
      type,
      name,
    ]),
    [
      ['custom', 'apply_patch'],
      ['namespace', 'agents'],
    ],
  );
  const results = [
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'patched' },
    { type: 'function_call_output', call_id: 'c2', output: '[]' },
    {
      type: 'custom_tool_call_output',
      call_id: 'c3',
      output: [{ type: 'input_text', text: 'ok' }],
    },
  ];
  await create(client, { input: results, previous_response_id: first.id, tools: [patch, agents] });
  const byId = asked(real).messages;
  const user = { role: 'user', content: 'Work.' };
  await create(client, { input: [user, ...first.output, ...results], tools: [patch, agents] });
  assert.equal(asked(real).messages, byId, 'sent back whole, the model gets the same');
  const items = await client.responses.inputItems.list(first.id);
  assert.is(items.data.length, 1);
});

test('the input of a custom tool is streamed as text', async ({ real, client }) => {
  real.provider.script = script;
  const events: ResponseStreamEvent[] = [];
  const stream = (await create(client, {
    tools: [patch, agents],
    stream: true,
  })) as unknown as AsyncIterable<ResponseStreamEvent>;
  for await (const event of stream) events.push(event);
  const inputs = events.flatMap((event) =>
    event.type === 'response.custom_tool_call_input.delta'
      ? [[event.output_index, event.delta]]
      : [],
  );
  assert.equal(inputs.map(([, text]) => text).join(''), `${INPUT}hi`);
  const done = events.filter(({ type }) => type === 'response.custom_tool_call_input.done');
  assert.equal(
    done.map((event) => (event as { input?: string }).input),
    [INPUT, 'hi'],
  );
});

test('tools that servers run are left out and named, and a forced one is refused', async ({
  real,
  client,
}) => {
  const tools = [
    agents,
    { type: 'web_search', external_web_access: false },
    { type: 'file_search' },
  ];
  const { response } = await client.responses
    .create({ model: MODEL, input: 'Hi', tools } as never)
    .withResponse();
  assert.is(response.headers.get('x-svc-ignored'), 'tools.1.web_search, tools.2.file_search');
  assert.is(asked(real).tools?.length, 2);
  for (const tool_choice of [{ type: 'web_search_preview' }, { type: 'mcp', server_label: 'x' }])
    assert.is((await errorOf(create(client, { tools, tool_choice })))[0], 400);
  const strict = await bootOpenai({ strict_requests: true });
  try {
    assert.equal(await errorOf(create(strict.client, { tools })), [
      400,
      'invalid_request',
      'tools.1.type',
    ]);
  } finally {
    await strict.real.close();
  }
});

test('a choice names a tool as the client does', async ({ real, client }) => {
  const tools = [patch, agents];
  const choices: [object, unknown, string[]][] = [
    [{ type: 'custom', name: 'apply_patch' }, { name: 'apply_patch' }, []],
    [{ type: 'function', name: 'list', namespace: 'agents' }, { name: 'agents__list' }, []],
    [
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'custom', name: 'apply_patch' }] },
      ...(['required', ['apply_patch']] as [unknown, string[]]),
    ],
  ];
  for (const [tool_choice, chosen, left] of choices) {
    const { tool_choice: shown } = await create(client, { tools, tool_choice });
    assert.equal(asked(real).tool_choice, chosen);
    const names = (asked(real).tools ?? []).map(({ name }) => name);
    if (left.length > 0) assert.equal(names, left);
    else assert.equal(shown, tool_choice);
  }
});

test('a long name of a namespace is cut with a digest, and still comes back', async ({
  real,
  client,
}) => {
  const name = 'n'.repeat(40);
  const [one, two] = [`${'t'.repeat(39)}1`, `${'t'.repeat(39)}2`];
  const functions = [one, two].map((of) => ({ type: 'function', name: of, parameters: {} }));
  real.provider.script = ({ request }: AttemptRequest) => [
    ...called('c1', request.tools?.[1]?.name ?? '', '{}'),
    end('tool_calls'),
  ];
  const tools = [{ type: 'namespace', name, description: '', tools: functions }];
  const { output: items } = await create(client, { tools });
  assert.ok(asked(real).tools?.every((tool) => tool.name.length <= 64));
  const [call] = items as unknown as Call[];
  assert.equal([call?.name, call?.namespace], [two, name]);
});

test('tools that an item of the input brings stay in the conversation', async ({
  real,
  client,
}) => {
  const brought = { type: 'additional_tools', role: 'developer', tools: [patch, agents] };
  const first = await create(client, { input: [brought, { role: 'user', content: 'Hi' }] });
  const next = await create(client, { input: 'More.', previous_response_id: first.id });
  const names = ['apply_patch', 'agents__list', 'agents__say'];
  assert.equal(
    asked(real).tools?.map(({ name }) => name),
    names,
  );
  real.provider.script = script;
  const last = await create(client, { input: 'More.', previous_response_id: next.id });
  assert.is((last.output[0] as unknown as Call).type, 'custom_tool_call');
});

test('an image in a result is shown to the model after the results', async ({ real, client }) => {
  real.provider.script = script;
  const call = { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' };
  const image = { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgoAAAAN' };
  const input = [
    { role: 'user', content: 'Look.' },
    call,
    { ...call, call_id: 'b' },
    { type: 'function_call_output', call_id: 'a', output: [image] },
    { type: 'function_call_output', call_id: 'b', output: 'fine' },
  ];
  await create(client, { input });
  const { messages } = asked(real);
  assert.equal(
    messages.map(({ role, content }) => [role, content.map(({ type }) => type).join()]),
    [
      ['user', 'text'],
      ['assistant', 'tool_call,tool_call'],
      ['tool', 'tool_result'],
      ['tool', 'tool_result'],
      ['user', 'text,image'],
    ],
  );
});

test('a file of an input reaches the model as text, also from a tool', async ({ real, client }) => {
  const data = `data:text/plain;base64,${Buffer.from('The sky is blue.').toString('base64')}`;
  const file = { type: 'input_file', filename: 'sky.txt', file_data: data };
  const call = { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' };
  const input = [
    { role: 'user', content: [{ type: 'input_text', text: 'Read.' }, file] },
    call,
    { type: 'function_call_output', call_id: 'a', output: [file] },
  ];
  await create(client, { input });
  const said = '<document title="sky.txt">\nThe sky is blue.\n</document>';
  assert.equal(
    asked(real).messages.flatMap(({ content }) =>
      content.map((part) => ('text' in part ? part.text : part.type)),
    ),
    ['Read.', said, 'tool_call', said],
  );
  for (const [wrongFile, param] of [
    [{ ...file, file_data: 'x' }, 'file_data'],
    [{ ...file, file_id: 'file-1' }, 'file_id'],
    [{ ...file, file_url: 'https://a.example/a.pdf' }, 'file_url'],
  ] as const)
    assert.is(
      (await errorOf(create(client, { input: [{ role: 'user', content: [wrongFile] }] })))[2],
      `input.0.content.0.${param}`,
    );
});

test('what other services left in a conversation is left out and named', async ({
  real,
  client,
}) => {
  const input = [
    { role: 'user', content: 'Hi', internal_chat_message_metadata_passthrough: { turn_id: 't' } },
    { type: 'reasoning', summary: [], content: null, encrypted_content: 'gAAA' },
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Hm.' }],
      encrypted_content: null,
    },
    { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'x' } },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes?' }] },
    { role: 'user', content: 'Go on.' },
  ];
  const { response } = await client.responses
    .create({ model: MODEL, input, client_metadata: { a: 'b' } } as never)
    .withResponse();
  assert.is(response.headers.get('x-svc-ignored'), 'input.3.web_search_call');
  // The run counts what only another provider can read.
  const [run] = (await real.runtime.runs.list({ limit: 1 })).runs;
  assert.is(run?.opaque_left_out, 1);
  assert.equal(
    asked(real).messages.map(({ role, content }) => [role, content.map(({ type }) => type).join()]),
    [
      ['user', 'text'],
      ['assistant', 'reasoning,text'],
      ['user', 'text'],
    ],
  );
  const foreign = { type: 'local_shell_call', call_id: 'x', action: {} };
  assert.equal((await errorOf(create(client, { input: [foreign] })))[2], 'input.0.type');
});

test.run();
