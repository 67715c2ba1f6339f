import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseRunInput } from '../../../src/contract/inputs.ts';
import { stream } from '../../../src/kernel/stream.ts';
import type { ToolResult } from '../../../src/ports/tools.ts';
import { callingModel as model, settled } from '../../helpers/calling-model.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { ScriptedServers } from '../../helpers/scripted-servers.ts';
import { waitFor } from '../../helpers/wait.ts';

const echo = (args: unknown) => ({ text: JSON.stringify(args), is_error: false });

test('a model gets the results of the calls that it makes, until it answers', async () => {
  const servers = new ScriptedServers({ 'files/read': { policy: 'allow', run: echo } });
  const local = model([
    ['files__read', '{"path":"a"}'],
    ['files__read', '{"path":"b"}'],
  ]);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const { id } = await runtime.runs.start({ prompt: 'read', tool_servers: ['files'] }, 'test');
  await settled(kernel, id);
  const run = await runtime.runs.get(id);
  assert.equal([run.state, run.output, run.attempts], ['completed', 'done', 2]);
  assert.equal(
    run.tool_calls?.map(({ server, tool, state, decided_by, result }) => [
      server,
      tool,
      state,
      decided_by,
      result,
    ]),
    [
      ['files', 'read', 'finished', 'policy', '{"path":"a"}'],
      ['files', 'read', 'finished', 'policy', '{"path":"b"}'],
    ],
  );
  assert.equal(run.usage, { input_tokens: 2, output_tokens: 2 }, 'both turns count');
  const [first, second] = local.asked;
  assert.equal(
    first?.request.tools?.map(({ server }) => server),
    [undefined],
  );
  assert.equal(
    second?.request.messages.map(({ role }) => role),
    ['user', 'assistant', 'tool'],
  );
  assert.equal(servers.begun, [`${id}.1`, `${id}.2`]);
});

test('a call waits for a person, takes no place meanwhile, and begins when it is allowed', async () => {
  const description = 'The tool write.';
  const servers = new ScriptedServers({ 'files/write': { run: echo, description } });
  const { runtime, kernel, scheduler } = await bootRuntime({
    local: model([['files__write', '{}']]),
    servers,
    limits: { local_runs: 1 },
  });
  const { id } = await runtime.runs.start(
    { prompt: 'write', tool_servers: ['files/write'] },
    'test',
  );
  await waitFor('the approval', () => runtime.approvals.list().length === 1);
  assert.is((await runtime.runs.get(id)).state, 'awaiting_approval');
  assert.is(scheduler.running, 0);
  const other = await runtime.runs.start({ prompt: 'else' }, 'test');
  await settled(kernel, other.id);
  assert.equal(servers.begun, []);
  const [waiting] = runtime.approvals.list();
  assert.equal([waiting?.run, waiting?.server, waiting?.tool], [id, 'files', 'write']);
  assert.equal([waiting?.description, waiting?.target], ['The tool write.', 'scripted files']);
  const { turns } = await runtime.runs.get(id);
  const said = turns?.map(({ role, content }) => [role, ...content.map(({ type }) => type)]);
  assert.equal(said, [['assistant', 'text', 'tool_call']], 'a call that waits has no result');
  await runtime.approvals.decide(`${id}.1`, { decision: 'allow', always: true }, 'a person');
  await settled(kernel, id);
  const { state, tool_calls } = await runtime.runs.get(id);
  assert.equal([state, tool_calls?.[0]?.decided_by], ['completed', 'a person']);
  assert.is(servers.tools_by_name['files/write']?.policy, 'allow');
});

test('the model hears why a call was denied, and a decision counts once', async () => {
  const servers = new ScriptedServers({ 'files/write': { run: echo } });
  const local = model([['files__write', '{}']]);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const { id } = await runtime.runs.start({ prompt: 'write', tool_servers: ['files'] }, 'test');
  await waitFor('the approval', () => runtime.approvals.list().length === 1);
  const decide = (decision: 'allow' | 'deny') =>
    runtime.approvals.decide(`${id}.1`, { decision, reason: 'not on a Friday' }, 'me').then(
      () => 'taken',
      ({ code }) => code,
    );
  assert.equal(await Promise.all([decide('deny'), decide('allow')]), ['taken', 'approval_decided']);
  await settled(kernel, id);
  assert.is(await decide('allow'), 'approval_unknown', 'its run has ended');
  assert.equal(servers.begun, []);
  const said = local.asked[1]?.request.messages.at(-1)?.content[0];
  assert.match(said?.type === 'tool_result' ? said.text : '', /not carried out: not on a Friday/);
});

test('a call that no person allows is denied when its time is over, and the run goes on', async () => {
  const servers = new ScriptedServers({ 'files/write': { run: echo } });
  const { runtime, kernel, clock } = await bootRuntime({
    local: model([['files__write', '{}']]),
    servers,
    limits: { approval_ms: 5_000_000, run_ms: 60_000 },
  });
  const { id } = await runtime.runs.start({ prompt: 'write', tool_servers: ['files'] }, 'test');
  await waitFor('the approval', () => runtime.approvals.list().length === 1);
  const { waits_since } = await runtime.runs.get(id);
  assert.is(Date.parse(waits_since ?? ''), clock.now());
  clock.advance(4_999_000);
  assert.is((await runtime.runs.get(id)).state, 'awaiting_approval', 'no time of the run passes');
  clock.advance(1_000);
  await settled(kernel, id);
  const { state, tool_calls, ...run } = await runtime.runs.get(id);
  assert.equal([state, tool_calls?.[0]?.decided_by], ['completed', 'deadline']);
  assert.equal([run.waited_ms, run.waits_since], [5_000_000, undefined]);
});

test('sleep moves the time by which a call is allowed, in the log too, and nothing else is late', async () => {
  const servers = new ScriptedServers({ 'files/write': { run: echo } });
  const options = {
    local: model([['files__write', '{}']]),
    servers,
    limits: { approval_ms: 5_000_000, run_ms: 60_000 },
  };
  const first = await bootRuntime(options);
  const { id } = await first.runtime.runs.start(
    { prompt: 'write', tool_servers: ['files'] },
    'test',
  );
  await waitFor('the approval', () => first.runtime.approvals.list().length === 1);
  const begun = first.clock.now();
  const until = (world: typeof first) => Date.parse(world.runtime.approvals.list()[0]?.until ?? '');
  first.clock.advance(1_000_000);
  first.clock.jump(90_000_000);
  assert.is(first.clock.now(), begun + 91_000_000);
  await waitFor('the event', () => until(first) === begun + 95_000_000);
  first.clock.advance(3_999_000);
  assert.is((await first.runtime.runs.get(id)).state, 'awaiting_approval');
  first.kernel.close();
  const clock = manualClock(first.clock.now() + 500);
  const next = await bootRuntime({ ...options, store: first.store, boot_id: 'boot_2', clock });
  assert.is((await next.runtime.runs.get(id)).state, 'awaiting_approval', 'after a restart too');
  await next.runtime.approvals.decide(`${id}.1`, { decision: 'allow' }, 'me');
  await settled(next.kernel, id);
  assert.is((await next.runtime.runs.get(id)).state, 'completed', 'no time of the run had passed');
});

test('a call that was started and lost its daemon is never carried out again by itself', async () => {
  const never = new Promise<never>(() => {});
  const servers = new ScriptedServers({
    'git/delete': {
      policy: 'allow',
      run: (_, __, report) => {
        report('1 of 2: a branch');
        return never;
      },
    },
  });
  const options = { local: model([['git__delete', '{}']]), servers };
  const first = await bootRuntime(options);
  const { id } = await first.runtime.runs.start({ prompt: 'x', tool_servers: ['git'] }, 'test');
  const isReported = async () => {
    const { tool_calls = [] } = await first.runtime.runs.get(id);
    return tool_calls[0]?.report !== undefined;
  };
  await waitFor('the report', isReported);
  first.kernel.close();
  const next = await bootRuntime({ ...options, store: first.store, boot_id: 'boot_2' });
  assert.is((await next.runtime.runs.get(id)).state, 'awaiting_decision');
  assert.equal(servers.begun, [`${id}.1`], 'it was not repeated');
  const [lost] = next.runtime.approvals.list();
  assert.equal([lost?.state, lost?.until, lost?.report], ['lost', null, '1 of 2: a branch']);
  const wrong = await next.runtime.approvals
    .decide(`${id}.1`, { decision: 'allow' }, 'me')
    .catch(({ code }) => code);
  assert.is(wrong, 'invalid_request');
  await next.runtime.approvals.decide(`${id}.1`, { decision: 'result', result: 'deleted' }, 'me');
  await settled(next.kernel, id);
  const { state, tool_calls } = await next.runtime.runs.get(id);
  assert.equal([state, tool_calls?.[0]?.result], ['completed', 'deleted']);
});

/** It works until its call is given up. */
const lasting = (_: unknown, signal: AbortSignal) =>
  new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  );

test('a daemon that has given its calls up begins none again, and starts no other', async () => {
  const servers = new ScriptedServers({ 'git/log': { policy: 'allow', run: lasting } });
  const local = model([
    ['git__log', '{}'],
    ['git__log', '{"n":1}'],
  ]);
  const { runtime, kernel, toolCalls } = await bootRuntime({
    local,
    servers,
    limits: { tool_calls_at_once: 1 },
  });
  const { id } = await runtime.runs.start({ prompt: 'x', tool_servers: ['git'] }, 'test');
  const states = async () =>
    (await runtime.runs.get(id)).tool_calls?.map(({ state }) => state).join(' ');
  await waitFor('the first call', async () => (await states()) === 'started allowed');
  toolCalls.close();
  const said = { type: 'run.tool_reported', call: 1, text: 'more' } as const;
  assert.ok(await kernel.tryAppend(stream.run(id), said));
  assert.ok(await kernel.tryAppend(stream.run(id), { ...said, text: 'and more' }));
  assert.equal(servers.begun, [`${id}.1`]);
  assert.is(await states(), 'started allowed', 'the next start decides');
});

test('a call whose result could not be recorded is not carried out again', async () => {
  const servers = new ScriptedServers({ 'git/push': { policy: 'allow', run: echo } });
  const { runtime, kernel } = await bootRuntime({ local: model([['git__push', '{}']]), servers });
  const tryAppend = kernel.tryAppend.bind(kernel);
  const refused: string[] = [];
  kernel.tryAppend = (async (stream: never, event: { type: string }) => {
    if (event.type !== 'run.tool_finished') return tryAppend(stream, event as never);
    refused.push(event.type);
    throw new Error('the disk is full');
  }) as typeof kernel.tryAppend;
  const { id } = await runtime.runs.start({ prompt: 'x', tool_servers: ['git'] }, 'test');
  await waitFor('the result', () => refused.length === 1);
  assert.ok(
    await tryAppend(id as never, { type: 'run.tool_reported', call: 1, text: 'x' } as never),
  );
  assert.equal([servers.begun, refused.length], [[`${id}.1`], 1]);
});

test('a run that is cancelled while it waits for a person is one unfinished run', async () => {
  const servers = new ScriptedServers({ 'files/write': { run: echo } });
  const local = model([['files__write', '{}']]);
  const { runtime, kernel, scheduler } = await bootRuntime({ local, servers });
  const { id } = await runtime.runs.start({ prompt: 'x', tool_servers: ['files'] }, 'test');
  await waitFor('the approval', () => runtime.approvals.list().length === 1);
  const seen: [string, number][] = [];
  kernel.onProposed('run', ({ type }) => seen.push([type, scheduler.unsettled]));
  await runtime.runs.cancel(id, 'me');
  await settled(kernel, id);
  assert.equal(seen[0], ['run.cancel_requested', 1]);
  assert.is(scheduler.unsettled, 0);
});

test('a call that was allowed and not started is started by the next daemon; one that may be repeated is repeated', async () => {
  for (const [repeatable, times] of [
    [false, 1],
    [true, 2],
  ] as const) {
    const hung = gate();
    let isFirst = true;
    const servers = new ScriptedServers({
      'web/get': {
        policy: 'allow',
        repeatable,
        run: () => {
          if (!isFirst) return echo('page');
          isFirst = false;
          hung.open();
          return new Promise<never>(() => {});
        },
      },
    });
    const options = {
      local: model([
        ['web__get', '{}'],
        ['web__get', '{"n":1}'],
      ]),
      servers,
      limits: { tool_calls_at_once: 1 },
    };
    const first = await bootRuntime(options);
    const { id } = await first.runtime.runs.start({ prompt: 'x', tool_servers: ['web'] }, 'test');
    await hung.opened;
    first.kernel.close();
    const next = await bootRuntime({ ...options, store: first.store, boot_id: 'boot_2' });
    await waitFor('the second call', () => servers.begun.includes(`${id}.2`));
    if (!repeatable) {
      await waitFor('the decision', () => next.runtime.approvals.list().length === 1);
      await next.runtime.approvals.decide(`${id}.1`, { decision: 'skip' }, 'me');
    }
    await settled(next.kernel, id);
    assert.is((await next.runtime.runs.get(id)).state, 'completed');
    assert.is(servers.begun.filter((call) => call === `${id}.1`).length, times);
  }
});

test('the model hears once that its arguments are wrong; the second time the run fails', async () => {
  const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
  const servers = new ScriptedServers({ 'math/add': { policy: 'allow', schema, run: echo } });
  const local = model([['math__add', '{"n":"two"}']], [['math__add', '{']]);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const { id } = await runtime.runs.start({ prompt: 'add', tool_servers: ['math'] }, 'test');
  await settled(kernel, id);
  const { state, error, tool_calls } = await runtime.runs.get(id);
  assert.equal([state, error?.code], ['failed', 'tool_call_invalid']);
  assert.match(tool_calls?.[0]?.result ?? '', /arguments\/n must be number/);
  assert.equal(servers.begun, []);
});

test('turns and calls are bounded, and a call that repeats itself ends its run', async () => {
  const servers = new ScriptedServers({ 'a/b': { policy: 'allow', run: () => echo('same') } });
  const many = Array.from({ length: 9 }, (_, n): [string, string][] => [['a__b', `{"n":${n}}`]]);
  const same = Array.from({ length: 9 }, (): [string, string][] => [['a__b', '{}']]);
  for (const [turns, limits, code, calls] of [
    [many, { tool_turns: 2 }, 'tool_limit', 2],
    [many, { tool_calls: 3 }, 'tool_limit', 3],
    [same, {}, 'tool_loop', 3],
  ] as const) {
    servers.begun.length = 0;
    const { runtime, kernel } = await bootRuntime({ local: model(...turns), servers, limits });
    const { id } = await runtime.runs.start({ prompt: 'go', tool_servers: ['a'] }, 'test');
    await settled(kernel, id);
    assert.equal([(await runtime.runs.get(id)).error?.code, servers.begun.length], [code, calls]);
  }
});

const shot = (data: string): ToolResult => ({
  text: '[file 1: image/png, 6 bytes]',
  is_error: false,
  media: [{ type: 'image', media_type: 'image/png', data }],
});

test('a result has files: the model gets them, and the record has their size', async () => {
  const datas = ['QUFBQUFB', 'QkJCQkJC', 'Q0NDQ0ND', 'RERERERE'];
  const servers = new ScriptedServers({
    'a/shot': { policy: 'allow', run: () => shot(datas[servers.begun.length - 1] ?? '') },
  });
  const turns = datas.map((): [string, string][] => [['a__shot', '{}']]);
  const local = model(...turns);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const { id } = await runtime.runs.start({ prompt: 'look', tool_servers: ['a'] }, 'test');
  await settled(kernel, id);
  const run = await runtime.runs.get(id);
  assert.is(run.state, 'completed', 'four pictures in turn are no loop');
  const { text, media } = shot('QUFBQUFB');
  const result = { type: 'tool_result', id: 'call_0_0', text, is_error: false };
  assert.equal(local.asked[1]?.request.messages.at(-1)?.content, [{ ...result, media }]);
  assert.equal(run.turns?.[1]?.content, [
    { ...result, media: [{ type: 'image', media_type: 'image/png', size_bytes: 6 }] },
  ]);
  const { events } = await runtime.history.whyRun(id);
  const finished = events.find(({ type }) => type === 'run.tool_finished');
  assert.equal(finished?.data, {
    call: 1,
    text,
    is_error: false,
    media: [{ type: 'image', media_type: 'image/png', size_bytes: 6 }],
  });
  const turn = { prompt: 'more', conversation: id, continues: id, tool_servers: ['a'] };
  const next = await runtime.runs.start(turn, 'test');
  await settled(kernel, next.id);
  const asked = local.asked.find(({ run_id }) => run_id === next.id);
  assert.equal(asked?.request.messages[2]?.content, [
    { ...result, text: `${text}\n[svc: its files were left out: they are in an earlier run]` },
  ]);
});

test('the next turn of a conversation has what the tools said, if it has tools itself', async () => {
  const servers = new ScriptedServers({ 'a/b': { policy: 'allow', run: () => echo('page') } });
  const local = model([['a__b', '{}']]);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const first = await runtime.runs.start({ prompt: 'go', tool_servers: ['a'] }, 'test');
  await settled(kernel, first.id);
  for (const [tool_servers, roles] of [
    [['a'], ['user', 'assistant', 'tool', 'assistant', 'user']],
    [[], ['user', 'assistant', 'user']],
  ]) {
    const turn = { prompt: 'more', conversation: first.id, continues: first.id };
    const { id } = await runtime.runs.start({ ...turn, tool_servers }, 'test');
    await settled(kernel, id);
    const asked = local.asked.findLast(({ run_id }) => run_id === id);
    assert.equal(
      asked?.request.messages.map(({ role }) => role),
      roles,
    );
  }
});

test('a request names servers, or single tools, and two tools of one name are refused', async () => {
  const tool = { policy: 'allow', run: () => echo('page') } as const;
  const servers = new ScriptedServers({ 'a/b': tool, 'a/c': tool, 'a_/b': tool, 'a/_b': tool });
  const local = model([['a__b', '{}']]);
  const { runtime, kernel } = await bootRuntime({ local, servers });
  const limits = { prompt_bytes: 1000, run_messages: 9, run_tools: 9 };
  const input = parseRunInput(
    { prompt: 'go', tools: ['mcp:a/b', 'mcp:a/b'], tool_choice: 'required' },
    limits,
  );
  assert.equal([input.tools, input.tool_servers], [[], ['a/b', 'a/b']]);
  const { id } = await runtime.runs.start(input, 'test');
  await settled(kernel, id);
  assert.equal(
    local.asked.map(({ request }) => [request.tools?.length, request.tool_choice]),
    [
      [1, 'required'],
      [1, 'auto'],
    ],
  );
  for (const [tool_servers, code] of [
    [['a/none'], 'tool_unknown'],
    [['a', 'a_/b'], 'invalid_request'],
  ] as [string[], string][])
    assert.is(
      await runtime.runs.start({ prompt: 'go', tool_servers }, 'test').then(
        () => 'none',
        (error) => error.code,
      ),
      code,
    );
});

test('a tool that does not answer in time is given up, and the model hears so', async () => {
  const begun = gate();
  let isAborted = false;
  const servers = new ScriptedServers({
    'a/b': {
      policy: 'allow',
      run: (_, signal) => {
        begun.open();
        signal.addEventListener('abort', () => {
          isAborted = true;
        });
        return new Promise<never>(() => {});
      },
    },
  });
  const { runtime, kernel, clock } = await bootRuntime({
    local: model([['a__b', '{}']]),
    servers,
    limits: { tool_ms: 5000 },
  });
  const { id } = await runtime.runs.start({ prompt: 'go', tool_servers: ['a'] }, 'test');
  await begun.opened;
  clock.advance(5000);
  await settled(kernel, id);
  const { state, tool_calls } = await runtime.runs.get(id);
  assert.equal([state, isAborted], ['completed', true]);
  assert.match(tool_calls?.[0]?.result ?? '', /did not answer in time/);
});

test('a cancel gives up the calls that work, and its run ends', async () => {
  const begun = gate();
  let isAborted = false;
  const servers = new ScriptedServers({
    'a/b': {
      policy: 'allow',
      run: (_, signal) => {
        begun.open();
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            isAborted = true;
            reject(new Error('aborted'));
          }),
        );
      },
    },
  });
  const { runtime, kernel } = await bootRuntime({ local: model([['a__b', '{}']]), servers });
  const { id } = await runtime.runs.start({ prompt: 'go', tool_servers: ['a'] }, 'test');
  await begun.opened;
  await runtime.runs.cancel(id, 'me');
  await settled(kernel, id);
  const { state, tool_calls } = await runtime.runs.get(id);
  assert.equal([state, isAborted, tool_calls?.[0]?.state], ['cancelled', true, 'abandoned']);
});

test('the tools of servers count against the bounds of a request', async () => {
  const schema = { type: 'object', title: 'x'.repeat(2000) };
  const servers = new ScriptedServers({
    'files/read': { schema, run: echo },
    'files/write': { schema, run: echo },
  });
  for (const [limits, code] of [
    [{ run_tools: 2 }, 'invalid_request'],
    [{ prompt_bytes: 4000 }, 'prompt_too_large'],
  ] as const) {
    const { runtime } = await bootRuntime({ local: model(), servers, limits });
    const own = { name: 'mine', description: null, parameters: { type: 'object' } };
    const start = { prompt: 'x', tools: [own], tool_servers: ['files'] };
    assert.is(await runtime.runs.start(start, 'test').catch((error) => error.code), code);
  }
});

test.run();
