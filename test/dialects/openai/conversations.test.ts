import OpenAI from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunKey } from '../../../src/kernel/stream.ts';
import { output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, call, end, errorOf, MODEL, think, weather } from './boot.ts';

/** Conversations with the `openai` package, against the real listener and runtime. */
const test = suite<{ real: Real; client: OpenAI }>('conversations');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

type Items = { data: readonly object[] };
const said = ({ data }: Items) =>
  data.map((item) => {
    const { type, role, content, summary } = item as Record<string, never>;
    const [part] = (content ?? summary ?? []) as { text?: string }[];
    return [role ?? type, part?.text].join(' ').trim();
  });
const user = (content: string) => ({ role: 'user', content }) as const;
const roles = (real: Real) =>
  asked(real).messages.map(({ role, content }) =>
    [role, ...content.map((part) => ('text' in part ? part.text : part.type))].join(' '),
  );

test('a conversation has metadata that change, and is gone when it is deleted', async ({
  client,
}) => {
  const made = await client.conversations.create({ metadata: { team: 'a' } });
  assert.match(made.id, /^conv_[0-9A-Z]{26}$/);
  assert.equal([made.object, made.metadata], ['conversation', { team: 'a' }]);
  assert.equal(await client.conversations.retrieve(made.id), made);
  const changed = await client.conversations.update(made.id, { metadata: { team: 'b' } });
  assert.equal(changed, { ...made, metadata: { team: 'b' } });
  assert.equal(await client.conversations.retrieve(made.id), changed);
  const gone = await client.conversations.delete(made.id);
  assert.equal(gone, { id: made.id, object: 'conversation.deleted', deleted: true });
  for (const id of [made.id, 'conv_x', 'run_1']) {
    const error = await client.conversations.retrieve(id).catch((thrown) => thrown);
    assert.instance(error, OpenAI.NotFoundError, id);
    assert.is(error.code, 'conversation_unknown');
  }
  const late = await client.conversations.items
    .create(made.id, { items: [user('x')] })
    .catch((thrown) => thrown);
  assert.instance(late, OpenAI.NotFoundError);
});

test('calls come back as what they were sent, from a conversation and from an input', async ({
  client,
  real,
}) => {
  const mcp = { type: 'mcp_call', server_label: 'my files', name: 'read', arguments: '{"n":1}' };
  const error = { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'gone' }] };
  const custom = { type: 'custom_tool_call', call_id: 'c1', name: 'patch', input: 'a\n"b"' };
  const spaced = { type: 'function_call', call_id: 'c2', name: 'now', namespace: 'clock' };
  const calls = [
    { ...mcp, output: 'said 1', error: null },
    { ...mcp, id: 'mcp_7', output: '', error: null },
    { ...mcp, output: null, error },
    { ...mcp, output: null, error: 'it is gone' },
    custom,
    { ...spaced, arguments: '{}' },
  ];
  const results = [
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'done' },
    { type: 'function_call_output', call_id: 'c2', output: 'noon' },
  ];
  const sent = [...calls, ...results];
  const plain = (items: readonly object[]) =>
    items.map((item) =>
      Object.fromEntries(
        Object.entries(item).filter(
          ([name]) => !['id', 'status', 'approval_request_id'].includes(name),
        ),
      ),
    );
  const { id } = await client.conversations.create({ items: calls as never });
  await client.conversations.items.create(id, { items: results as never });
  const listed = await client.conversations.items.list(id, { order: 'asc' });
  assert.equal(plain(listed.data), plain(sent));
  const states = listed.data.map((item) => ('status' in item ? item.status : null));
  assert.is(states.filter((state) => state === 'failed').length, 2);
  const response = await client.responses.create({
    model: MODEL,
    conversation: id,
    input: [{ ...mcp, output: 'said 2' }, user('and?')] as never,
  });
  const got = asked(real).messages.filter(({ role }) => role === 'tool');
  assert.is(got.length, calls.length + 1, 'the model has each call with its result');
  const inputs = await client.responses.inputItems.list(response.id, { order: 'asc' });
  const [first] = inputs.data;
  assert.equal(plain([first as object]), [{ ...mcp, output: 'said 2', error: null }]);
  await client.conversations.items.delete(listed.data[0]?.id ?? '', { conversation_id: id });
  const left = await client.conversations.items.list(id, { order: 'asc' });
  assert.equal(plain(left.data.slice(0, 7)), plain(sent.slice(1)));
});

test('items are added, read page by page in both orders, and removed', async ({ client }) => {
  const { id } = await client.conversations.create({ items: [user('one')] });
  const added = await client.conversations.items.create(id, {
    items: [
      { role: 'assistant', content: 'two' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'three' }] },
    ],
  });
  assert.equal(said(added as Items), ['assistant two', 'user three']);
  const { items } = client.conversations;
  const down = await items.list(id);
  assert.equal(said(down), ['user three', 'assistant two', 'user one']);
  const up = [];
  for await (const item of items.list(id, { order: 'asc', limit: 1 })) up.push(item);
  assert.equal(said({ data: up }), ['user one', 'assistant two', 'user three']);
  assert.is(new Set(up.map((item) => (item as { id: string }).id)).size, 3);
  const [, second] = up as { id: string }[];
  const one = await items.retrieve(String(second?.id), { conversation_id: id });
  assert.equal(one, second as never);
  assert.is((await items.delete(String(second?.id), { conversation_id: id })).id, id);
  assert.equal(said(await items.list(id)), ['user three', 'user one']);
  const missing = await items
    .retrieve(String(second?.id), { conversation_id: id })
    .catch((thrown) => thrown);
  assert.instance(missing, OpenAI.NotFoundError);
});

test('a response follows what the conversation says, and is added to it', async ({
  real,
  client,
}) => {
  const { id } = await client.conversations.create({
    items: [{ role: 'developer', content: 'Be brief.' }, user('My name is Ada.')],
  });
  real.provider.script = [think('hm'), output('Hello Ada.', 1), end()];
  const first = await client.responses.create({
    model: MODEL,
    conversation: id,
    input: 'Greet me.',
    instructions: 'Sing.',
  });
  assert.equal(roles(real), [
    'system Sing.',
    'system Be brief.',
    'user My name is Ada.',
    'user Greet me.',
  ]);
  assert.equal(first.conversation, { id });
  const run_id = first.id.replace('resp_', 'run_') as RunKey;
  assert.is((await real.runtime.runs.get(run_id)).conversation, id);
  const { runs } = await real.runtime.runs.list({ conversation: id });
  assert.equal(
    runs.map((run) => run.id),
    [run_id],
  );
  await client.conversations.items.create(id, { items: [user('Louder.')] });
  real.provider.script = [output('HELLO.', 1), end()];
  const second = await client.responses.create({
    model: MODEL,
    conversation: { id },
    input: 'Now.',
    stream: true,
  });
  for await (const _ of second);
  assert.equal(roles(real), [
    'system Be brief.',
    'user My name is Ada.',
    'user Greet me.',
    'assistant hm Hello Ada.',
    'user Louder.',
    'user Now.',
  ]);
  const items = await client.conversations.items.list(id, { order: 'asc' });
  assert.equal(
    said(items),
    [
      'developer Be brief.',
      'user My name is Ada.',
      'user Greet me.',
      'reasoning hm',
      'assistant Hello Ada.',
      'user Louder.',
      'user Now.',
      'assistant HELLO.',
    ].map((line) => line.replace('developer', 'system')),
  );
  // Without an item, its messages are made of all that is left.
  const [, , greet] = items.data as { id: string }[];
  await client.conversations.items.delete(String(greet?.id), { conversation_id: id });
  await client.responses.create({ model: MODEL, conversation: id, input: 'Again.' });
  assert.equal(roles(real), [
    'system Be brief.',
    'user My name is Ada.',
    'assistant hm Hello Ada.',
    'user Louder.',
    'user Now.',
    'assistant HELLO.',
    'user Again.',
  ]);
});

test('a call is answered through the conversation', async ({ real, client }) => {
  const { id } = await client.conversations.create();
  real.provider.script = [call('c1', '{}'), end('tool_calls')];
  const ask = (input: OpenAI.Responses.ResponseInput | string) =>
    client.responses.create({ model: MODEL, conversation: id, input, tools: [weatherTool] });
  await ask('Weather?');
  real.provider.script = [output('Sunny.', 1), end()];
  await ask([{ type: 'function_call_output', call_id: 'c1', output: 'sun' }]);
  assert.equal(roles(real), ['user Weather?', 'assistant tool_call', 'tool sun']);
  const types = (await client.conversations.items.list(id, { order: 'asc' })).data.map(
    ({ type }) => type,
  );
  assert.equal(types, ['message', 'function_call', 'function_call_output', 'message']);
});

test('one response at a time; one that fails or is removed says nothing', async ({
  real,
  client,
}) => {
  const { id } = await client.conversations.create();
  real.provider.script = (_, signal) => [output('a', 1), untilAborted(signal)];
  const create = (input: string) =>
    client.responses.create({ model: MODEL, conversation: id, input });
  const leave = new AbortController();
  const asking = client.responses
    .create({ model: MODEL, conversation: id, input: 'One.' }, { signal: leave.signal })
    .catch(() => 'left');
  await waitFor('it has begun', () => real.provider.asked.length === 1);
  const busy = await create('Two.').catch((thrown) => thrown);
  assert.equal([busy.status, busy.code], [409, 'conversation_busy']);
  leave.abort();
  assert.is(await asking, 'left');
  const [run] = (await real.runtime.runs.list({ conversation: id })).runs;
  await waitFor('it is over', async () => (await real.runtime.runs.head(String(run?.id))).finished);
  assert.equal((await client.conversations.items.list(id)).data, []);
  real.provider.script = [output('Yes.', 1), end()];
  const kept = await create('Three.');
  assert.equal(roles(real), ['user Three.']);
  await real.runtime.runs.remove(kept.id.replace('resp_', 'run_'));
  assert.equal((await client.conversations.items.list(id)).data, []);
});

test('requests that change it meanwhile are refused, and a key finds its run again', async ({
  real,
  client,
}) => {
  const { id } = await client.conversations.create();
  const options = { headers: { 'Idempotency-Key': 'k' } };
  const body = { model: MODEL, conversation: id, input: 'Hi.' };
  const first = await client.responses.create(body, options);
  assert.is((await client.responses.create(body, options)).id, first.id, 'it has grown since');
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'c'].map((input) => client.responses.create({ ...body, input })),
  );
  const refused = outcomes.filter(({ status }) => status === 'rejected');
  for (const each of refused)
    assert.is((each as PromiseRejectedResult).reason.code, 'conversation_busy');
  const { runs } = await real.runtime.runs.list({ conversation: id });
  assert.is(runs.length, 1 + outcomes.length - refused.length);
});

test('what it cannot be is refused by name', async ({ client }) => {
  const { id } = await client.conversations.create();
  const param = (work: Promise<unknown>) =>
    work.then(
      () => null,
      (thrown) => `${thrown.status} ${thrown.param}`,
    );
  const input = 'x';
  const previous = await client.responses.create({ model: MODEL, input });
  const both = { conversation: id, previous_response_id: previous.id };
  assert.is(
    await param(client.responses.create({ model: MODEL, input, ...both })),
    '400 conversation',
  );
  const unknown = { model: MODEL, input, conversation: 'conv_1' };
  assert.is(await param(client.responses.create(unknown)), '404 conversation');
  const many = Array.from({ length: 21 }, () => user('x'));
  assert.is(await param(client.conversations.create({ items: many })), '400 items');
  assert.is(await param(client.conversations.items.create(id, { items: [] })), '400 items');
  const after = client.conversations.items.list(id, { after: 'in_1' });
  assert.is(await param(after), '400 after');
});

test('its changes and its texts are bounded, and a full one can be deleted', async () => {
  const limits = { conversation_entries: 10, prompt_bytes: 1000 };
  const { real, client } = await bootOpenai({ limits });
  const { id } = await client.conversations.create({ items: [user('x'.repeat(600))] });
  const more = (length: number) =>
    client.conversations.items.create(id, { items: [user('y'.repeat(length))] });
  const refused = (work: PromiseLike<unknown>) => errorOf(work);
  assert.equal(await refused(more(400)), [413, 'prompt_too_large', 'items']);
  const large = { items: [user('x'.repeat(1000))] };
  assert.equal(await refused(client.conversations.create(large)), [
    413,
    'prompt_too_large',
    'items',
  ]);
  await more(100);
  for (let change = 3; change <= 10; change += 1)
    await client.conversations.update(id, { metadata: { change: String(change) } });
  const full = [400, 'invalid_request', 'conversation'];
  assert.equal(await refused(client.conversations.update(id, { metadata: {} })), full);
  assert.equal(await refused(more(1)), full);
  const run = client.responses.create({ model: MODEL, input: 'x', conversation: id });
  assert.equal(await refused(run), full);
  assert.is((await client.conversations.delete(id)).deleted, true);
  await real.close();
});

const weatherTool = {
  type: 'function',
  strict: null,
  name: 'weather',
  parameters: (weather as { function: { parameters?: object } }).function.parameters ?? {},
} as OpenAI.Responses.FunctionTool;

test.run();
