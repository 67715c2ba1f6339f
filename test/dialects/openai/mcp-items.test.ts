import type { Responses } from 'openai/resources/responses/responses';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import type { Real } from '../../transport/http/real.ts';
import { errorOf, MODEL } from './boot.ts';
import { all, answerTo, bootMcp, CALL, files, itemsOf, mcp, typesOf } from './mcp-boot.ts';

/** Items of calls that svc carries out: in conversations, as references, and as a choice. */

type Id = { id: string };
const askedLast = (real: Real) => real.provider.asked.at(-1)?.request;
const roles = (real: Real) => askedLast(real)?.messages.map(({ role }) => role);
const reference = (id: string | undefined) => ({ type: 'item_reference', id: id ?? '' }) as const;

test('a conversation has the items of its responses, with the decision between them', async () => {
  const { real, client, ask } = await bootMcp(files('ask'), [CALL, ['files__read', '{}']]);
  const { id: conversation } = await client.conversations.create();
  const { items } = client.conversations;
  const list = async (more: object = {}) =>
    (await all(items.list(conversation, { order: 'asc', ...more }))) as unknown as Id[];
  const first = await ask({ conversation });
  const [input, ...before] = await list();
  assert.match(JSON.stringify(input), 'go');
  assert.equal(before, first.output as unknown as Id[], 'a response is complete when it asks');
  const [one, two] = itemsOf(first, 'mcp_approval_request').map(({ id }) => id);
  const answers = [answerTo(one ?? ''), answerTo(two ?? '', false, { reason: 'Not now.' })];
  const second = await ask({ conversation, input: answers });
  assert.is(second.output_text, 'done');
  const said = await list();
  const decided = said.filter(({ id }) => id.startsWith('mcpa_'));
  const [yes, no] = answers;
  assert.equal(
    decided.map(({ id: _, ...answer }) => answer as unknown),
    [no, { reason: null, ...yes }],
    'what is denied is decided first',
  );
  assert.equal(said, [input, ...first.output, ...decided, ...second.output] as Id[]);
  assert.equal(typesOf(second), ['mcp_call', 'mcp_call', 'message']);
  for (const order of ['asc', 'desc'] as const) {
    const paged = await list({ order, limit: 1 });
    assert.equal(paged, order === 'asc' ? said : said.toReversed());
  }
  for (const item of said)
    assert.equal(await items.retrieve(item.id, { conversation_id: conversation }), item as never);
  const sent = await client.responses.inputItems.list(second.id, { order: 'asc' });
  assert.equal(sent.data as unknown, decided);
  await real.close();
});

test('without one of its items, a conversation says the calls that are left', async () => {
  const { real, client, ask } = await bootMcp(files('allow'), [CALL]);
  const tools = [mcp({ require_approval: 'never' })];
  const { id: conversation } = await client.conversations.create();
  const first = await ask({ conversation, tools });
  const remove = async (type: string) => {
    const { id = '' } = first.output.find((item) => item.type === type) ?? {};
    await client.conversations.items.delete(id, { conversation_id: conversation });
  };
  await remove('message');
  await ask({ conversation, input: 'on' });
  assert.equal(roles(real), ['user', 'assistant', 'tool', 'assistant', 'user']);
  assert.match(JSON.stringify(askedLast(real)?.messages), 'said ');
  await remove('mcp_call');
  await ask({ conversation, input: 'and on' });
  assert.equal(roles(real), ['user', 'assistant', 'user', 'assistant', 'user']);
  await real.close();
});

test('a response that asked stays in its conversation when its run is cancelled', async () => {
  const { real, client, ask } = await bootMcp(files('ask'), [CALL]);
  const { id: conversation } = await client.conversations.create();
  const first = await ask({ conversation });
  const run = first.id.replace('resp_', 'run_');
  await real.runtime.runs.cancel(run, 'me');
  await waitFor('it is over', async () => (await real.runtime.runs.head(run)).finished);
  const said = await all(client.conversations.items.list(conversation, { order: 'asc' }));
  assert.equal(
    said.map(({ type }) => type),
    ['message', ...typesOf(first)],
  );
  await ask({ conversation, input: 'on', tools: [] });
  assert.equal(roles(real), ['user', 'assistant', 'user']);
  await real.close();
});

test('an item of any response that is complete can be referred to', async () => {
  const { real, ask } = await bootMcp(files('ask'), [CALL]);
  const first = await ask();
  const [wish] = itemsOf(first, 'mcp_approval_request');
  const input = [...first.output.map(({ id }) => reference(id)), answerTo(wish?.id ?? '')];
  const second = await ask({ input });
  assert.is(second.output_text, 'done', 'the answer to an approval follows references');
  const said = [...first.output, ...second.output];
  await ask({ input: [...said.map(({ id }) => reference(id)), { role: 'user', content: 'on' }] });
  assert.equal(roles(real), ['assistant', 'tool', 'assistant', 'user']);
  const parts = askedLast(real)?.messages.flatMap(({ content }) => content) ?? [];
  const [, call, result] = parts;
  assert.equal(call?.type === 'tool_call' && [call.name, call.arguments], CALL);
  assert.is(result?.type === 'tool_result' && result.text, 'said {"n":1}');
  const strange = (id: string) => errorOf(ask({ input: [reference(id)] }));
  for (const id of ['mcp_x', `${second.output[0]?.id}9`, `mcp_${'0'.repeat(26)}_1`])
    assert.equal(await strange(id), [400, 'invalid_request', 'input.0.id']);
  await real.close();
});

test('a choice of a server forces its tools in the first turn, and all tools follow', async () => {
  const { real, client } = await bootMcp(files('allow'), [CALL]);
  const tools = [
    mcp({ require_approval: 'never' }),
    { type: 'function', name: 'now', parameters: {}, strict: false } as const,
  ];
  const tool_choice = { type: 'mcp', server_label: 'files' } as const;
  const { output_text } = await client.responses.create({
    model: MODEL,
    input: 'go',
    tools,
    tool_choice,
  });
  assert.is(output_text, 'I look. done');
  assert.equal(
    real.provider.asked.map(({ request }) => [
      request.tool_choice,
      request.tools?.map(({ name }) => name),
    ]),
    [
      ['required', ['files__read']],
      ['auto', ['now', 'files__read']],
    ],
  );
  await real.close();
});

test('a tool of a server is forced by its name, and any of a server by its label', async () => {
  const { real, ask } = await bootMcp(files('allow'));
  const label = { type: 'mcp', server_label: 'files' } as const;
  const one = { ...label, name: 'read' };
  const own = { type: 'function', name: 'now', parameters: {}, strict: false } as const;
  const choose = (tool_choice: object, ...more: Responses.Tool[]) =>
    ask({ tool_choice: tool_choice as never, tools: [mcp(), ...more] });
  assert.equal((await choose(one, own)).tool_choice, one);
  assert.equal(askedLast(real)?.tool_choice, { name: 'files__read' });
  await choose(label);
  assert.is(askedLast(real)?.tool_choice, 'required');
  assert.equal((await choose(label, own)).tool_choice, label);
  assert.is(askedLast(real)?.tool_choice, 'required');
  assert.equal(
    askedLast(real)?.tools?.map(({ name }) => name),
    ['files__read'],
  );
  const refused = async (choice: object, ...more: Responses.Tool[]) =>
    (await errorOf(choose(choice, ...more))).slice(0, 3);
  const empty = ask({ tool_choice: label as never, tools: [mcp({ allowed_tools: [] }), own] });
  assert.equal((await errorOf(empty)).slice(0, 3), [400, 'invalid_request', 'tool_choice']);
  assert.equal(await refused({ ...label, name: 'gone' }), [400, 'invalid_request', 'tool_choice']);
  assert.equal(await refused({ ...label, server_label: 'x' }), [
    400,
    'invalid_request',
    'tool_choice',
  ]);
  const allowed = async (...tools: object[]) => {
    await choose({ type: 'allowed_tools', mode: 'auto', tools }, own);
    return askedLast(real)?.tools?.map(({ name }) => name) ?? [];
  };
  assert.equal(await allowed(own), ['now']);
  assert.equal(await allowed(label), ['files__read']);
  assert.equal(await allowed(own, one), ['now', 'files__read']);
  const outside = { type: 'allowed_tools', mode: 'auto', tools: [one] };
  const none = { tool_choice: outside as never, tools: [mcp({ allowed_tools: [] })], model: MODEL };
  await ask(none);
  assert.equal(askedLast(real)?.tools ?? [], [], 'nothing more than the tool itself allows');
  await real.close();
});

test.run();
