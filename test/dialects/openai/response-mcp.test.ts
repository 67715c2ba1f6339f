import type { Responses } from 'openai/resources/responses/responses';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { continueWithApprovals } from '../../../src/dialects/openai/responses/approvals.ts';
import type { SvcError } from '../../../src/errors.ts';
import { HOME } from '../../../src/runtime/principal/principal.ts';
import { Digests } from '../../../src/runtime/runs/keys.ts';
import { callingModel, settled } from '../../helpers/calling-model.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootOpenai, clientOf, errorOf, MODEL } from './boot.ts';
import {
  all,
  answerTo,
  bootMcp as boot,
  CALL,
  files,
  HOSTILE,
  itemsOf,
  mcp,
  schema,
  typesOf,
} from './mcp-boot.ts';

/** Tools `mcp` of the Responses API: servers of the configuration, and approvals as items. */

test('a response ends with the approval it asks for, and the next one has the call and the answer', async () => {
  const { real, client, ask, servers } = await boot(files('ask'), [CALL]);
  const first = await ask();
  assert.equal(typesOf(first), ['mcp_list_tools', 'message', 'mcp_approval_request']);
  assert.is(first.status, 'completed');
  assert.equal(servers.begun, []);
  const [list] = itemsOf(first, 'mcp_list_tools');
  assert.equal(list?.tools, [
    {
      name: 'read',
      description: HOSTILE,
      input_schema: schema,
      annotations: { readOnlyHint: false, idempotentHint: false, destructiveHint: false },
    },
  ]);
  const [wish] = itemsOf(first, 'mcp_approval_request');
  assert.equal([wish?.server_label, wish?.name, wish?.arguments], ['files', 'read', '{"n":1}']);
  assert.equal(first.tools, [mcp()]);
  const again = { previous_response_id: first.id, tools: [mcp()] };
  const second = await ask({ ...again, input: [answerTo(wish?.id ?? '')] });
  assert.equal(typesOf(second), ['mcp_call', 'message']);
  const [call] = itemsOf(second, 'mcp_call');
  assert.equal(
    [call?.name, call?.output, call?.error, call?.status, call?.approval_request_id],
    ['read', 'said {"n":1}', null, 'completed', wish?.id],
  );
  assert.is(second.output_text, 'done');
  assert.is(second.previous_response_id, first.id);
  // The usage of both is that of the run.
  const { usage } = await real.runtime.runs.get(first.id.replace('resp_', 'run_'));
  const sum = (first.usage?.input_tokens ?? 0) + (second.usage?.input_tokens ?? 0);
  assert.is(sum, usage.input_tokens);
  for (const each of [first, second])
    assert.equal((await client.responses.retrieve(each.id)).output, each.output);
  // The same request again changes nothing, and another decision comes too late.
  const same = await ask({ ...again, input: [answerTo(wish?.id ?? '')] });
  assert.equal([same.id, same.output], [second.id, second.output]);
  const late = ask({ ...again, input: [answerTo(wish?.id ?? '', false)] });
  assert.equal((await errorOf(late))[0], 409);
  assert.is(servers.begun.length, 1);
  // A later response has what was called in its conversation.
  await ask({ previous_response_id: second.id, input: 'and now?' });
  const roles = real.provider.asked.at(-1)?.request.messages.map(({ role }) => role);
  assert.equal(roles, ['user', 'assistant', 'tool', 'assistant', 'user']);
  await real.close();
});

test('the events of a stream are the items of the response, numbered, and go on after any of them', async () => {
  const { real, client } = await boot(files('allow'), [CALL, ['files__gone', '{}']]);
  const tools = [mcp({ require_approval: 'never' })];
  const stream = await client.responses.create({ model: MODEL, input: 'go', tools, stream: true });
  const events = await all(stream);
  assert.equal(
    events.map(({ type }) => type.replace('response.', '')).filter((type) => /mcp/.test(type)),
    [
      'mcp_list_tools.in_progress',
      'mcp_list_tools.completed',
      'mcp_call.in_progress',
      'mcp_call_arguments.delta',
      'mcp_call_arguments.done',
      'mcp_call.failed',
      'mcp_call.in_progress',
      'mcp_call_arguments.delta',
      'mcp_call_arguments.done',
      'mcp_call.completed',
    ],
  );
  assert.equal(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  const done = events.filter((event) => event.type === 'response.output_item.done');
  const last = events.at(-1) as Responses.ResponseCompletedEvent;
  const { id, output } = last.response;
  assert.equal(
    done.toSorted((a, b) => a.output_index - b.output_index).map(({ item }) => item),
    output,
  );
  assert.equal((await client.responses.retrieve(id)).output, output);
  const failed = itemsOf(last.response, 'mcp_call').find(({ name }) => name === 'files__gone');
  assert.match(JSON.stringify(failed?.error), /There is no tool/);
  for (const starting_after of [0, 5, events.length - 2]) {
    const rest = await client.responses.retrieve(id, { stream: true, starting_after });
    assert.equal(await all(rest), events.slice(starting_after + 1));
  }
  const ahead = client.responses.retrieve(id, { stream: true, starting_after: events.length });
  assert.equal(await errorOf(ahead), [400, 'invalid_request', 'starting_after']);
  await real.close();
});

test('a request can ask for more approvals than the configuration, never for fewer', async () => {
  const filter = { tool_names: ['read'] };
  for (const [policy, require_approval, asks] of [
    ['ask', 'never', true],
    ['ask', { never: filter }, true],
    ['allow', 'never', false],
    ['allow', { never: filter }, false],
    ['allow', { never: { read_only: true } }, true],
    ['allow', { never: filter, always: filter }, true],
    ['allow', { always: { tool_names: ['drop'] } }, true],
    ['allow', 'always', true],
    ['allow', undefined, true],
  ] as const) {
    const { real, ask, servers } = await boot(files(policy), [CALL]);
    const { output } = await ask({ tools: [mcp({ require_approval })] });
    const what = `${policy} ${JSON.stringify(require_approval)}`;
    assert.is(output.at(-1)?.type === 'mcp_approval_request', asks, what);
    assert.is(servers.begun.length, asks ? 0 : 1, what);
    await real.close();
  }
});

test('a denied call is a failed one, and several are decided together', async () => {
  const { real, client, ask, servers } = await boot(files('ask'), [CALL, ['files__read', '{}']]);
  const first = await ask();
  const [one, two] = itemsOf(first, 'mcp_approval_request').map(({ id }) => id);
  const next = (...input: Responses.ResponseInputItem[]) =>
    ask({ previous_response_id: first.id, input });
  const problem = (error: unknown) => errorOf(error as PromiseLike<unknown>);
  assert.equal(await problem(next(answerTo(one ?? ''))), [400, 'invalid_request', 'input']);
  assert.equal(await problem(ask({ previous_response_id: first.id })), [
    400,
    'invalid_request',
    'input',
  ]);
  assert.equal(await problem(next(answerTo('mcpr_x'))), [
    400,
    'invalid_request',
    'input.0.approval_request_id',
  ]);
  const later = `${first.id}_1`;
  for (const missing of [
    () => client.responses.retrieve(later),
    () => client.responses.retrieve(later, { stream: true }),
    () => client.responses.inputItems.list(later),
    () => client.responses.delete(later),
  ])
    assert.equal((await problem(missing()))[0], 404);
  const second = await next(
    answerTo(one ?? ''),
    answerTo(two ?? '', false, { reason: 'Not now.' }),
  );
  const calls = itemsOf(second, 'mcp_call');
  assert.equal(
    calls.map(({ status, approval_request_id }) => [approval_request_id, status]).toSorted(),
    [
      [one, 'completed'],
      [two, 'failed'],
    ].toSorted(),
  );
  assert.match(JSON.stringify(calls), /Not now\./);
  assert.equal([second.output_text, servers.begun.length], ['done', 1]);
  await real.close();
});

test('a client that keeps its conversation itself sends all items again', async () => {
  const { real, ask } = await boot(files('ask'), [CALL], [], [CALL]);
  const hello = { role: 'user', content: 'go' } as const;
  const first = await ask({ input: [hello], store: false });
  const [wish] = itemsOf(first, 'mcp_approval_request');
  const all = [hello, ...(first.output as Responses.ResponseInputItem[]), answerTo(wish?.id ?? '')];
  const second = await ask({ input: all, store: false });
  assert.equal(typesOf(second), ['mcp_call', 'message']);
  await ask({
    input: [...all, ...(second.output as Responses.ResponseInputItem[]), hello],
    store: false,
  });
  const { messages = [] } = real.provider.asked.at(-1)?.request ?? {};
  assert.equal(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant', 'user'],
  );
  const [called] = messages[2]?.content ?? [];
  assert.is(called?.type === 'tool_result' && called.text, 'said {"n":1}');
  await real.close();
});

test('only servers of the configuration are reached, and their tools are narrowed', async () => {
  const { real, ask, servers } = await boot(files('allow'), []);
  const refused = (more: object) => errorOf(ask({ tools: [mcp(more)] }));
  for (const field of ['server_url', 'connector_id', 'tunnel_id', 'authorization'])
    assert.equal(await refused({ [field]: 'https://evil.example/mcp' }), [
      400,
      'invalid_request',
      `tools.0.${field}`,
    ]);
  assert.equal(await refused({ server_label: 'none' }), [400, 'tool_unknown', null]);
  assert.equal((await refused({ server_label: 'files/read' }))[0], 400);
  assert.equal(await refused({ allowed_tools: ['gone'] }), [400, 'tool_unknown', 'tools']);
  assert.equal((await errorOf(ask({ tools: [mcp(), mcp()] })))[2], 'tools');
  const names = async (allowed_tools: unknown) => {
    const { output } = await ask({ tools: [mcp({ allowed_tools })] });
    return itemsOf({ output }, 'mcp_list_tools').flatMap(({ tools }) => tools.map((t) => t.name));
  };
  assert.equal(await names(['read']), ['read']);
  assert.equal(await names({ read_only: true }), []);
  assert.equal(await names(null), ['read'], 'what the configuration denies is not offered');
  assert.equal(servers.begun, []);
  await real.close();
});

test('a request with approvals reads each event of its run once, streamed and whole', async () => {
  const { real, ask, client } = await boot(files('ask'), [CALL]);
  const { runs } = real.runtime;
  const follow = runs.follow.bind(runs);
  let read: number[] = [];
  runs.follow = async function* (id, options) {
    for await (const slice of follow(id, options)) {
      read.push(...slice.events.map(({ seq }) => seq));
      yield slice;
    }
  };
  for (const stream of [true, false]) {
    const first = await ask();
    const [wish] = itemsOf(first, 'mcp_approval_request');
    const more = { model: MODEL, input: [answerTo(wish?.id ?? '')] };
    read = [];
    if (stream) await all(await client.responses.create({ ...more, stream }));
    else await ask(more);
    const { seq } = await runs.head(first.id.replace('resp_', 'run_'));
    assert.is(read.at(-1), seq, 'up to the end');
    assert.equal(read, [...new Set(read)], `${stream}`);
  }
  await real.close();
});

test('a token with run decides nothing; it goes on once a person has decided', async () => {
  const { real, servers } = await boot(files('ask'), [CALL]);
  const worker = real.runtime.as({ ...HOME, name: 'worker', scope: 'run' });
  const client = clientOf(real);
  const { id } = await worker.runs.start(
    { prompt: 'go', tool_servers: ['files'], recovery: 'resume' },
    'test',
    { asked_as: { api: 'openai.responses', fields: {} } },
  );
  const first = await client.responses
    .retrieve(id.replace('run_', 'resp_'), {})
    .then(async (response) => {
      const events = await client.responses.retrieve(response.id, { stream: true });
      const last = (await all(events)).at(-1);
      return (last as Responses.ResponseCompletedEvent).response;
    });
  const [wish] = itemsOf(first, 'mcp_approval_request');
  const body = { input: [answerTo(wish?.id ?? '')] };
  const as = (runtime: typeof worker, input: object = body) =>
    continueWithApprovals(runtime, input as Parameters<typeof continueWithApprovals>[1]).then(
      (response) => response?.source.part,
      ({ code, hint }: SvcError) => [code, hint.includes('svc approvals allow')],
    );
  assert.equal(await as(worker), ['scope_insufficient', true]);
  const stranger = real.runtime.as({ ...HOME, name: 'stranger', scope: 'run' });
  assert.equal(await as(stranger), ['invalid_request', false]);
  assert.equal(servers.begun, []);
  await real.runtime.approvals.decide(`${id}.1`, { decision: 'allow' }, 'me');
  assert.is(await as(worker), 1);
  await settled(real.kernel, id);
  assert.equal(servers.begun, [`${id}.1`]);
  await real.close();
});

test('an approval and its stream survive a restart of the daemon', async () => {
  const servers = files('ask');
  const provider = callingModel([CALL]);
  const first = await bootOpenai({ script: provider.script, servers });
  const tools = [mcp()];
  const asked = await first.client.responses.create({ model: MODEL, input: 'go', tools });
  const [wish] = itemsOf(asked, 'mcp_approval_request');
  first.real.kernel.close();
  const { store } = first.real;
  const next = await bootOpenai({ script: provider.script, servers, store, boot_id: 'boot_2' });
  assert.equal((await next.client.responses.retrieve(asked.id)).output, asked.output);
  const stream = await next.client.responses.create({
    model: MODEL,
    previous_response_id: asked.id,
    input: [answerTo(wish?.id ?? '')],
    tools,
    stream: true,
  });
  const events = await all(stream);
  const { response } = events.at(-1) as Responses.ResponseCompletedEvent;
  assert.equal(typesOf(response), ['mcp_call', 'message']);
  assert.equal((await next.client.responses.retrieve(response.id)).output, response.output);
  await next.real.close();
  await first.real.close();
});

test('a key of a version without an empty list of tools still finds its run', async () => {
  const servers = files('allow');
  const { script } = callingModel();
  const go = [{ role: 'user', content: 'go' }];
  const server = { type: 'url', name: 'files', url: '' };
  // What that version recorded for each of these requests.
  for (const [path, body, request_digest] of [
    [
      '/v1/responses',
      { model: MODEL, input: 'go', tools: [mcp()] },
      '5670656d7e50f233da64156f936ffe9c5964e3d8a3126c96720fb1d64188c33d',
    ],
    [
      '/v1/chat/completions',
      { model: MODEL, messages: go, tools: [mcp({ require_approval: 'never' })] },
      'a19cee612226819a5d83abe5dcdc4d758ea3bb6fa881611be1b84761e19b4ddc',
    ],
    [
      '/v1/messages',
      { model: MODEL, max_tokens: 9, messages: go, mcp_servers: [server] },
      'ca6cf92644f8c28cb928279342ba8f4e4caad7edf90537b22d01af7e010d1130',
    ],
  ] as const) {
    const store = createMemoryStore();
    const ask = async (boot_id: string, more: object = {}) => {
      const { real } = await bootOpenai({ script, servers, store, boot_id });
      const headers = {
        authorization: `Bearer ${TOKEN}`,
        'content-type': 'application/json',
        'idempotency-key': 'k',
      };
      const sent = { method: 'POST', headers, body: JSON.stringify({ ...body, ...more }) };
      const answer = await fetch(`${real.url}${path}`, sent);
      await answer.text();
      await real.close();
      return [answer.status, answer.headers.get('x-svc-run-id')];
    };
    const { of } = Digests.prototype;
    Digests.prototype.of = () => request_digest;
    const first = await ask('boot_1').finally(() => {
      Digests.prototype.of = of;
    });
    assert.is(first[0], 200);
    assert.equal(await ask('boot_2'), first, path);
    assert.is((await ask('boot_3', { temperature: 1 }))[0], 422);
  }
});

test('a call of the background goes on without its client, and a cut one waits in its response', async () => {
  const hung = gate();
  const servers = files('ask', {
    run: async () => {
      await hung.opened;
      return { text: 'late', is_error: false };
    },
  });
  const { real, client, ask } = await boot(servers, [CALL]);
  const first = await ask({ background: true });
  await all(await client.responses.retrieve(first.id, { stream: true }));
  const [wish] = itemsOf(await client.responses.retrieve(first.id), 'mcp_approval_request');
  const input = [answerTo(wish?.id ?? '')];
  assert.equal(await errorOf(ask({ background: false, input })), [
    400,
    'invalid_request',
    'background',
  ]);
  const second = await ask({ background: true, input });
  assert.equal([second.id, second.status], [`${first.id}_1`, 'in_progress']);
  hung.open();
  const events = await all(await client.responses.retrieve(second.id, { stream: true }));
  const { response } = events.at(-1) as Responses.ResponseCompletedEvent;
  assert.is(itemsOf(response, 'mcp_call')[0]?.output, 'late');
  await real.close();
});

test('the tools of servers count among the tokens of an input', async () => {
  const { real, client } = await boot(files('allow'));
  const count = (tools: Responses.Tool[]) =>
    client.responses.inputTokens.count({ model: MODEL, input: 'go', tools });
  const [alone, guess] = [await count([]), await count([mcp()])];
  assert.ok(guess.input_tokens > alone.input_tokens + HOSTILE.length / 4);
  let names: string[] = [];
  Object.assign(real.provider, {
    countTokens: async ({ tools = [] }: { tools?: { name: string }[] }) => {
      names = tools.map(({ name }) => name);
      return 7;
    },
  });
  assert.is((await count([mcp()])).input_tokens, 7);
  assert.equal(names, ['files__read']);
  await real.close();
});

test('a turn that also calls a function of the client ends the response, without calls of servers', async () => {
  const { real, ask, servers } = await boot(files('allow'), [['now', '{}'], CALL]);
  const now = { type: 'function', name: 'now', parameters: {}, strict: false } as const;
  const first = await ask({ tools: [now, mcp({ require_approval: 'never' })] });
  assert.equal(typesOf(first), ['mcp_list_tools', 'message', 'function_call']);
  const [called] = itemsOf(first, 'function_call');
  const input = [
    { type: 'function_call_output', call_id: called?.call_id ?? '', output: 'noon' } as const,
  ];
  const second = await ask({ previous_response_id: first.id, input, tools: [now] });
  assert.equal([second.output_text, servers.begun], ['done', []]);
  await real.close();
});

test('chat completions have the answer of the last turn, a stream that of all, and the run the calls', async () => {
  const { real, client, servers } = await boot(files('allow'), [CALL]);
  const messages = [{ role: 'user' as const, content: 'go' }];
  const chat = { model: MODEL, messages, tools: [mcp({ require_approval: 'never' })] as never };
  const { data, response } = await client.chat.completions.create(chat).withResponse();
  const { message, finish_reason } = data.choices[0] ?? {};
  assert.equal([message?.content, message?.tool_calls, finish_reason], ['done', undefined, 'stop']);
  const chunks = await all(await client.chat.completions.create({ ...chat, stream: true }));
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
  assert.is(deltas.map(({ content }) => content ?? '').join(''), 'I look. \n\ndone');
  assert.ok(deltas.every(({ tool_calls }) => tool_calls === undefined));
  const run = await real.runtime.runs.get(response.headers.get('x-svc-run-id') ?? '');
  assert.equal(
    run.tool_calls?.map(({ server, tool, state, result }) => [server, tool, state, result]),
    [['files', 'read', 'finished', 'said {"n":1}']],
  );
  assert.is(run.output, 'done');
  const refused = { ...chat, tools: [mcp({ server_url: 'https://evil.example/mcp' })] as never };
  assert.equal(await errorOf(client.chat.completions.create(refused)), [
    400,
    'invalid_request',
    'tools.0.server_url',
  ]);
  assert.is(servers.begun.length, 2);
  await real.close();
});

test.run();
