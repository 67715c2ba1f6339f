import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunInput } from '../../src/contract/contract.ts';
import { Meter } from '../../src/transport/auth/named-tokens.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { codeOf, waitFor } from '../helpers/wait.ts';
import { holder, said } from './principals.ts';

/** What a token occupies, what it is asked again, and what ends with it. */

const hanging = () => new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
const remote = (port = hanging(), max_runs = 4) => ({
  evil: { port: Object.assign(port, { id: 'evil' }), kind: 'local' as const, max_runs },
});
const ASK: RunInput = { prompt: 'x', provider: 'evil', model: 'm' };

test('each asker has its keys: the same key and request are another run', async () => {
  const store = createMemoryStore();
  const answering = () => new ScriptedProvider('local', [output('an answer'), finish()]);
  const { runtime, kernel } = await bootRuntime({ local: answering(), store });
  const input = { prompt: 'pay once', idempotency_key: 'pay-42' };
  const cat = runtime.as(holder('cat'));
  const [home, first, again] = [
    await said(runtime, input),
    await said(cat, input),
    await said(cat, input),
  ];
  assert.is.not(first.id, home.id);
  assert.is(again.id, first.id);
  assert.is(first.idempotency_key, 'pay-42', 'the record has what the client wrote');
  const other = await said(runtime.as(holder('dog')), { ...input, prompt: 'something else' });
  assert.is(other.asked_by, 'dog', 'a key cannot be taken from another');
  assert.is(
    await codeOf(cat.runs.start({ ...input, prompt: 'y' }, 'test')),
    'idempotency_conflict',
  );
  await cat.runs.remove(first.id);
  assert.is((await said(runtime, input)).id, home.id, 'the key of the home stays');
  kernel.close();
  const later = await bootRuntime({ local: answering(), store, boot_id: 'boot_2' });
  assert.is((await said(later.runtime, input)).id, home.id);
  assert.is(
    (await said(later.runtime.as(holder('dog')), { ...input, prompt: 'something else' })).id,
    other.id,
  );
});

test('a key that an older version recorded leads only its token to its run', async () => {
  const inner = createMemoryStore();
  // An older version has one space of keys: the row has the key as it was written.
  const store = {
    ...inner,
    append: (commit: Parameters<typeof inner.append>[0]) =>
      inner.append({
        ...commit,
        runs: commit.runs.map((row) => ({
          ...row,
          idempotency_key: row.idempotency_key?.replace(/^token \S+ /, '') ?? null,
        })),
      }),
  };
  const local = () => new ScriptedProvider('local', [output('an answer'), finish()]);
  const before = await bootRuntime({ local: local(), store });
  const input = { prompt: 'x', idempotency_key: 'k' };
  const old = await said(before.runtime.as(holder('cat')), input);
  before.kernel.close();
  const { runtime } = await bootRuntime({ local: local(), store: inner, boot_id: 'boot_2' });
  assert.is((await said(runtime.as(holder('cat')), input)).id, old.id);
  assert.is.not((await said(runtime.as(holder('dog')), input)).id, old.id);
  assert.is(await codeOf(runtime.runs.start(input, 'test')), 'idempotency_conflict');
});

test('a turn follows only turns of its token; a turn of the home says whose turns it follows', async () => {
  const local = new ScriptedProvider('local', [output('an answer'), finish()]);
  const { runtime: home } = await bootRuntime({ local });
  const [cat, dog, ops] = [
    home.as(holder('cat')),
    home.as(holder('dog')),
    home.as(holder('ops', 'admin')),
  ];
  const planted = { prompt: 'INJECTED', origin: '/home/u/proj' };
  assert.is(await codeOf(cat.runs.start(planted, 'test')), 'invalid_request');
  assert.is(await codeOf(ops.runs.start(planted, 'test')), 'invalid_request');
  const mine = await said(home, { prompt: 'my plan', origin: '/home/u/proj' });
  const turn = (conversation: string, more = {}) => ({ prompt: 'next', conversation, ...more });
  assert.is(await codeOf(cat.runs.start(turn(mine.id), 'test')), 'run_unknown');
  assert.is(await codeOf(cat.runs.start(turn('last'), 'test')), 'run_unknown');
  const own = await said(cat, { prompt: 'of the cat' });
  const next = await said(cat, turn('last'));
  assert.equal([next.continues, next.turns_of], [own.id, undefined]);
  const last = await said(home, turn('last', { origin: '/home/u/proj' }));
  assert.is(last.continues, mine.id, 'last is of the same asker');
  assert.is(await codeOf(dog.runs.start(turn(own.id), 'test')), 'run_unknown');
  assert.is(await codeOf(dog.runs.list({ conversation: own.id })), 'run_unknown');

  const joined = await said(home, turn(own.id));
  assert.equal([joined.continues, joined.turns_of], [next.id, ['cat']]);
  const peeked = await home.runs.conversations.peek({ conversation: own.id });
  assert.equal(peeked.turns_of, ['cat']);
  assert.is(await codeOf(cat.runs.start(turn(own.id), 'test')), 'invalid_request');
  assert.equal((await said(ops, turn(own.id))).turns_of, ['cat']);
});

test('runs of a token leave a place at the provider, and a part of the queue, to the home', async () => {
  const { runtime, scheduler } = await bootRuntime({
    local: hanging(),
    remote: remote(),
    limits: { queue_runs: 8 },
    kept: 1,
  });
  const cat = runtime.as(holder('cat'));
  for (let each = 0; each < 6; each += 1) await cat.runs.start(ASK, `client ${each}`);
  assert.equal([scheduler.running, scheduler.queued], [3, 3]);
  for (const view of [cat, runtime.as(holder('dog'))])
    assert.is(await codeOf(view.runs.start(ASK, 'test')), 'busy');
  const home = await runtime.runs.start(ASK, 'test');
  await waitFor('it is asked', async () => (await runtime.runs.get(home.id)).started_at !== null);
  assert.is(
    (await runtime.runs.start(ASK, 'test')).queue_position,
    2,
    'its turn is the next round',
  );
});

test('the part of the queue for tokens is a limit', async () => {
  const limits = { queue_runs: 8, token_runs_percent: 25 };
  const { runtime } = await bootRuntime({ local: hanging(), remote: remote(), limits, kept: 1 });
  const cat = runtime.as(holder('cat'));
  for (let each = 0; each < 2; each += 1) await cat.runs.start(ASK, 'test');
  assert.is(await codeOf(cat.runs.start(ASK, 'test')), 'busy');
  await runtime.runs.start(ASK, 'test');
});

test('the queue is fair by asker first, and then by client', async () => {
  const { runtime } = await bootRuntime({ local: hanging(), remote: remote(hanging(), 1) });
  await runtime.runs.start(ASK, 'first');
  const [cat, dog] = [runtime.as(holder('cat')), runtime.as(holder('dog'))];
  const ids: Record<string, string> = {};
  const add = async (name: string, view: typeof runtime | typeof cat, client: string) => {
    ids[name] = (await view.runs.start(ASK, client)).id;
  };
  for (const client of ['a', 'b', 'c']) await add(`cat ${client}`, cat, client);
  await add('cat a2', cat, 'a');
  await add('dog a', dog, 'a');
  await add('home a', runtime, 'a');
  await add('home a2', runtime, 'a');
  await add('home b', runtime, 'b');
  const places = await Promise.all(
    Object.entries(ids).map(async ([name, id]) => ({
      name,
      place: (await runtime.runs.get(id)).queue_position ?? 0,
    })),
  );
  const order = places.sort((a, b) => a.place - b.place).map(({ name }) => name);
  assert.equal(order, [
    'cat a',
    'dog a',
    'cat b',
    'home a',
    'cat c',
    'home b',
    'cat a2',
    'home a2',
  ]);
  await cat.runs.cancel(ids['cat b'] ?? '', 'test');
  const place = async (name: string) => (await runtime.runs.get(ids[name] ?? '')).queue_position;
  assert.equal([await place('cat c'), await place('home b'), await place('cat a2')], [3, 6, 5]);
});

test('--concurrent counts unfinished runs and other requests, and reads go on', async () => {
  const { runtime } = await bootRuntime({ local: hanging(), remote: remote() });
  const meter = new Meter(() => 0);
  const bound = { name: 'cat', rate: null, concurrent: 2 };
  /** A request that asks for a run, and is answered at once. */
  const ask = async () => {
    const request = meter.request(bound);
    const end = request.begin();
    const view = runtime.as(holder('cat', 'run', { ...bound, ...request }));
    return view.runs.start(ASK, 'test').finally(end);
  };
  const first = await ask();
  await ask();
  assert.is(await codeOf(ask()), 'rate_limited', 'the clients have left, and the runs have not');
  const read = meter.request(bound);
  read.begin();
  assert.is((await runtime.as(holder('cat')).runs.get(first.id)).id, first.id);
  await runtime.runs.cancel(first.id, 'test');
  assert.is(await codeOf(ask()), 'rate_limited', 'one run and one read');
  const both = meter.request(bound);
  const end = both.begin();
  assert.throws(() => meter.request(bound).begin(), /as many as it may have/);
  end();
});

test('a streaming request and its run count once', async () => {
  const { runtime } = await bootRuntime({ local: hanging(), remote: remote() });
  const meter = new Meter(() => 0);
  const bound = { name: 'cat', rate: null, concurrent: 2 };
  const open = async () => {
    const request = meter.request(bound);
    request.begin();
    return runtime.as(holder('cat', 'run', { ...bound, ...request })).runs.start(ASK, 'test');
  };
  assert.equal([await codeOf(open()), await codeOf(open())], [undefined, undefined]);
});

test('what a token asked is cancelled with it, queued or active, and nothing later is accepted', async () => {
  const { runtime, scheduler } = await bootRuntime({
    local: hanging(),
    remote: remote(hanging(), 2),
  });
  const end = new AbortController();
  const cat = runtime.as(holder('cat', 'run', { ended: end.signal }));
  const mine = [await cat.runs.start(ASK, 'test'), await cat.runs.start(ASK, 'test')];
  mine.push(await cat.runs.start(ASK, 'test'));
  const home = await runtime.runs.start(ASK, 'test');
  assert.is(await runtime.runs.cancelAll('dog', 'token'), 0);
  end.abort(Object.assign(new Error('revoked'), { code: 'unauthorised' }));
  assert.is(await runtime.runs.cancelAll('cat', 'token'), 3);
  for (const { id } of mine) assert.is((await runtime.runs.get(id)).state, 'cancelled');
  assert.is(await codeOf(cat.runs.start(ASK, 'test')), 'unauthorised');
  assert.is((await runtime.runs.get(home.id)).ended_at, null);
  assert.is(await runtime.runs.cancelAll(null, 'token'), 1);
  assert.equal([scheduler.running, scheduler.queued], [0, 0]);
});

test.run();
