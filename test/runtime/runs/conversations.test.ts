import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../../src/config/config.ts';
import type { RunInput, RunRecord } from '../../../src/contract/contract.ts';
import type { Message } from '../../../src/contract/messages/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { Runtime } from '../../../src/operations/port.ts';
import { MadeConversations } from '../../../src/runtime/conversations/made-conversations.ts';
import { bootKernel } from '../../helpers/kernel.ts';
import { bootRuntime, NOWHERE } from '../../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { codeOf, waitFor } from '../../helpers/wait.ts';

/** It answers each prompt with its number, and keeps what it was asked. */
function counting(id = 'local') {
  let count = 0;
  return new ScriptedProvider(id, () => {
    count += 1;
    return [output(`answer ${count}`), finish()];
  });
}

async function said(runtime: Runtime, input: RunInput): Promise<RunRecord> {
  const { id } = await runtime.runs.start(input, 'test');
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  return runtime.runs.get(id);
}

const texts = (messages: readonly Message[] = []) =>
  messages.map(
    ({ role, content }) =>
      `${role}: ${content.map((part) => ('text' in part ? part.text : part.type)).join('')}`,
  );
const lastAsked = (local: ScriptedProvider) => texts(local.asked.at(-1)?.request.messages);

test('a turn gets the turns before it, and is a run of their conversation', async () => {
  const local = counting();
  const { runtime } = await bootRuntime({ local });
  const first = await said(runtime, { prompt: 'one', system: 'be kind' });
  assert.equal([first.conversation, first.continues], [first.id, undefined]);
  const second = await said(runtime, { prompt: 'two', conversation: first.id });
  assert.equal([second.conversation, second.continues], [first.id, first.id]);
  assert.is(second.prompt, 'two');
  const third = await said(runtime, { prompt: 'three', conversation: second.id });
  assert.equal([third.conversation, third.continues], [first.id, second.id]);
  assert.equal(lastAsked(local), [
    'system: be kind',
    'user: one',
    'assistant: answer 1',
    'user: two',
    'assistant: answer 2',
    'user: three',
  ]);
  const { runs } = await runtime.runs.list({ conversation: second.id });
  assert.equal(
    runs.map(({ id }) => id),
    [third.id, second.id, first.id],
  );
});

test('the conversation outlives the daemon, and its first run', async () => {
  const store = createMemoryStore();
  const before = await bootRuntime({ local: counting(), store });
  const first = await said(before.runtime, { prompt: 'one', origin: '/here' });
  const second = await said(before.runtime, { prompt: 'two', conversation: first.id });
  before.kernel.close();
  const local = counting();
  const { runtime } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  assert.is((await store.removeRun(first.id)).runs, 1, 'as retention does');
  const third = await said(runtime, { prompt: 'three', conversation: first.id });
  assert.equal([third.conversation, third.continues], [first.id, second.id]);
  assert.is(lastAsked(local)[0], 'user: one');
});

test('last is the last conversation of the origin', async () => {
  const local = counting();
  const { runtime } = await bootRuntime({ local });
  const here = await said(runtime, { prompt: 'one', origin: '/here' });
  await said(runtime, { prompt: 'other', origin: '/there' });
  const next = await said(runtime, { prompt: 'two', conversation: 'last', origin: '/here' });
  assert.is(next.conversation, here.id);
  const after = await said(runtime, { prompt: 'three', conversation: 'last', origin: '/here' });
  assert.is(after.continues, next.id, 'a turn counts for its origin too');
  const nowhere = { prompt: 'x', conversation: 'last', origin: '/nowhere' };
  assert.is(await codeOf(runtime.runs.start(nowhere, 'test')), 'run_unknown');
  assert.is(
    await codeOf(runtime.runs.start({ prompt: 'x', conversation: 'run_9' }, 't')),
    'run_unknown',
  );
});

test('a conversation has one run at a time, also while one begins', async () => {
  const { opened, open } = gate();
  const local = new ScriptedProvider('local', [output('a'), () => opened, finish()]);
  const { runtime } = await bootRuntime({ local });
  const first = await runtime.runs.start({ prompt: 'one' }, 'test');
  const next = { prompt: 'two', conversation: first.id };
  assert.is(await codeOf(runtime.runs.start(next, 'test')), 'conversation_busy');
  const busy = await runtime.runs.start(next, 'test').catch((error) => error);
  assert.match(busy.hint, `svc runs cancel ${first.id}`);
  open();
  await waitFor('the run ends', async () => (await runtime.runs.head(first.id)).finished);
  const codes = await Promise.all([1, 2, 3].map(() => codeOf(runtime.runs.start(next, 'test'))));
  assert.equal(codes.sort(), ['conversation_busy', 'conversation_busy', undefined]);
  const { runs } = await runtime.runs.list({ conversation: first.id });
  assert.is(runs.length, 2);
});

test('a start that is sent again with its key is the same turn', async () => {
  const { runtime } = await bootRuntime({ local: counting() });
  const first = await said(runtime, { prompt: 'one' });
  const next = { prompt: 'two', conversation: first.id, idempotency_key: 'k' };
  const second = await runtime.runs.start({ ...next, origin: '/here' }, 'test');
  const again = await runtime.runs.start({ ...next, origin: '/there' }, 'test');
  assert.is(again.id, second.id);
});

test('a turn without an answer is left out, and a turn can follow an earlier one', async () => {
  let fails = false;
  const local = new ScriptedProvider('local', () =>
    fails
      ? [new SvcError('provider_failed', 'no', { retryable: false })]
      : [output('fine'), finish()],
  );
  const { runtime } = await bootRuntime({ local });
  const first = await said(runtime, { prompt: 'one' });
  fails = true;
  const lost = await said(runtime, { prompt: 'lost', conversation: first.id });
  assert.is(lost.state, 'failed');
  fails = false;
  const second = await said(runtime, { prompt: 'two', conversation: first.id });
  assert.equal(
    [second.continues, lastAsked(local)],
    [first.id, ['user: one', 'assistant: fine', 'user: two']],
  );
  const branch = { prompt: 'again', conversation: first.id, continues: first.id };
  await said(runtime, branch);
  assert.equal(lastAsked(local), ['user: one', 'assistant: fine', 'user: again']);
  const wrong = { ...branch, continues: lost.id };
  assert.is(await codeOf(runtime.runs.start(wrong, 'test')), 'invalid_request');
});

test('reasoning is left out, a system text replaces the earlier one, and results follow their calls', async () => {
  const call = { id: 'c1', name: 'look' };
  const local = new ScriptedProvider('local', [
    { type: 'output', text: 'hm', token_ids: [], kind: 'reasoning' },
    output('so'),
    { type: 'output', text: '{}', token_ids: [], kind: 'tool_call', call },
    finish(),
  ]);
  const { runtime } = await bootRuntime({ local });
  const first = await said(runtime, { prompt: 'one', system: 'old' });
  await said(runtime, { prompt: 'two', system: 'new', conversation: first.id });
  assert.equal(lastAsked(local), ['system: new', 'user: one', 'assistant: so', 'user: two']);
  const result = { type: 'tool_result', id: 'c1', text: 'seen', is_error: false } as const;
  await said(runtime, {
    messages: [{ role: 'tool', content: [result] }],
    conversation: first.id,
    continues: first.id,
  });
  assert.equal(local.asked.at(-1)?.request.messages.at(-2)?.content.at(-1), {
    type: 'tool_call',
    ...call,
    arguments: '{}',
  });
});

test('the provider of the turn before answers, but the cloud only when the request says so', async () => {
  const [cloud, local] = [counting('sky'), counting()];
  const { runtime } = await bootRuntime({ local, remote: { sky: { port: cloud, kind: 'cloud' } } });
  const first = await said(runtime, { prompt: 'one', model: 'sky/big' });
  const next = { prompt: 'two', conversation: first.id };
  assert.is(await codeOf(runtime.runs.start(next, 'test')), 'usage');
  const second = await said(runtime, { ...next, cloud: true });
  assert.equal([second.provider, second.model, second.cloud], ['sky', 'big', true]);
  const third = await said(runtime, { prompt: 'three', conversation: first.id, model: 'local/m' });
  assert.equal([third.provider, local.asked.length], ['local', 1]);
});

test('a conversation that is too long is refused, and so is one that the log does not keep', async () => {
  const limits = { prompt_bytes: 60 };
  const { runtime } = await bootRuntime({ local: counting(), limits });
  const first = await said(runtime, { prompt: 'x'.repeat(40) });
  const next = { prompt: 'y'.repeat(40), conversation: first.id };
  const refused = await runtime.runs.start(next, 'test').catch((error: SvcError) => error);
  assert.ok(refused instanceof SvcError);
  assert.is(refused.code, 'prompt_too_large');
  assert.match(refused.hint, 'new conversation');
  const history = { prompts: 'omit', outputs: 'keep', redact: [] } as const;
  const omitting = await bootRuntime({ local: counting(), settings: { history } as never });
  const one = await said(omitting.runtime, { prompt: 'one' });
  const two = { prompt: 'two', conversation: one.id };
  assert.is(await codeOf(omitting.runtime.runs.start(two, 'test')), 'content_not_kept');
});

test('before the log is open a conversation is neither read nor changed, and may be asked again', async () => {
  const { kernel, store } = await bootKernel({ open: false });
  const made = new MadeConversations({
    kernel,
    store,
    config: loadConfig(NOWHERE, { env: {} }),
    conversations: { runExclusive: () => assert.unreachable('it is changed') as never },
    head: () => assert.unreachable('it is read') as never,
  });
  const refused = (work: Promise<unknown>) => work.catch((error: SvcError) => error);
  for (const work of [made.describe('run_1', { title: 'x' }), made.get('conv_1')]) {
    const error = await refused(work);
    assert.instance(error, SvcError);
    assert.equal([(error as SvcError).code, (error as SvcError).retryable], ['not_ready', true]);
  }
});

test.run();
