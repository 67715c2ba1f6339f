import { randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RequestSource, RunInput } from '../../../src/contract/contract.ts';
import { SvcError } from '../../../src/errors.ts';
import { type ContentSettings, keepsContent } from '../../../src/kernel/content.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import type { Runtime } from '../../../src/operations/port.ts';
import { Digests, requestDigest } from '../../../src/runtime/runs/keys.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const answering = () => new ScriptedProvider('local', [output('yes'), finish()]);
const keyed = (prompt: string, changes: Partial<RunInput> = {}): RunInput => ({
  prompt,
  idempotency_key: 'key-1',
  ...changes,
});

async function acceptedIn(store: EventStore): Promise<number> {
  return (await store.readAll(1, 1000)).filter(({ type }) => type === 'run.accepted').length;
}

test('the same key and request give the same run: while it runs, after its end, and after a restart', async () => {
  const store = createMemoryStore();
  const { runtime, kernel } = await bootRuntime({ local: answering(), store });
  const first = await runtime.runs.start(keyed('a'), 'test');
  assert.is((await runtime.runs.start(keyed('a'), 'test')).id, first.id);
  await waitFor('it has ended', () => !kernel.instances.has(first.id));
  const again = await runtime.runs.start(keyed('a'), 'another client');
  assert.equal([again.id, again.state, again.output], [first.id, 'completed', 'yes']);
  kernel.close();
  const after = await bootRuntime({ local: answering(), store, boot_id: 'boot_2' });
  assert.is((await after.runtime.runs.start(keyed('a'), 'test')).id, first.id);
  assert.is(await acceptedIn(store), 1);
});

test('a key of a run that a crash cut off is still its key', async () => {
  const store = createMemoryStore();
  const stuck = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const before = await bootRuntime({ local: stuck, store });
  const { id } = await before.runtime.runs.start(keyed('a'), 'test');
  before.kernel.close();
  const after = await bootRuntime({ local: stuck, store, boot_id: 'boot_2' });
  assert.is((await after.runtime.runs.start(keyed('a'), 'test')).id, id);
});

test('many simultaneous requests with one key are one run, sent once', async () => {
  const store = createMemoryStore();
  const local = answering();
  const { runtime } = await bootRuntime({ local, store });
  const runs = await Promise.all(
    Array.from({ length: 50 }, () => runtime.runs.start(keyed('a'), 'test')),
  );
  assert.is(new Set(runs.map(({ id }) => id)).size, 1);
  await turns();
  assert.is(local.asked.length, 1);
  assert.is(await acceptedIn(store), 1);
});

test('another request with a known key is refused, even at the same time, and the run of the key does not change', async () => {
  const store = createMemoryStore();
  const { runtime } = await bootRuntime({ local: answering(), store });
  const codes = await Promise.all([
    codeOf(runtime.runs.start(keyed('a'), 'test')),
    codeOf(runtime.runs.start(keyed('b'), 'test')),
    codeOf(runtime.runs.start(keyed('a', { temperature: 1 }), 'test')),
  ]);
  assert.equal(codes, [null, 'idempotency_conflict', 'idempotency_conflict']);
  assert.is(await codeOf(runtime.runs.start(keyed('b'), 'test')), 'idempotency_conflict');
  assert.is(await acceptedIn(store), 1);
});

test('a key that was used in one API is refused in another, and after a restart', async () => {
  const store = createMemoryStore();
  const as = (api: string) => ({ asked_as: { api, fields: {} } });
  const start = (runtime: Runtime, asked: RequestSource) =>
    codeOf(runtime.runs.start(keyed('a'), 'test', asked));
  for (const boot_id of ['boot_1', 'boot_2']) {
    const { runtime, kernel } = await bootRuntime({ local: answering(), store, boot_id });
    assert.is(await start(runtime, as('openai.chat')), null, boot_id);
    assert.is(await start(runtime, as('openai.chat')), null, boot_id);
    const others = [await start(runtime, as('ollama.chat')), await start(runtime, {})];
    assert.equal(others, ['idempotency_conflict', 'idempotency_conflict'], boot_id);
    kernel.close();
    // The next boot opens the log after the last commit of this one.
    await turns();
  }
  assert.is(await acceptedIn(store), 1);
});

test('a request is the same for any order of its fields, with a null field, and for any client', () => {
  const digest = requestDigest({ prompt: 'a', temperature: 1, seed: 2 });
  assert.is(requestDigest({ seed: 2, temperature: 1, prompt: 'a', system: null }), digest);
  assert.is(
    requestDigest({
      prompt: 'a',
      temperature: 1,
      seed: 2,
      client: 'x',
      idempotency_key: 'y',
      cancel_on_disconnect: true,
    }),
    digest,
  );
  assert.is.not(requestDigest({ prompt: 'a', temperature: 1 }), digest);
});

test('without the secret of the home a recorded digest reveals nothing about an omitted prompt', async () => {
  const asks = keyed('who knew');
  for (const history of [{ prompts: 'omit' }, { outputs: 'omit' }, { redact: ['x'] }]) {
    const digests = new Digests(
      'secret one',
      keepsContent({ prompts: 'keep', outputs: 'keep', redact: [], ...history } as ContentSettings),
    );
    const recorded = digests.of(asks) ?? '';
    assert.match(recorded, /^hmac-sha256:[0-9a-f]{64}$/);
    assert.not.ok(recorded.includes(requestDigest(asks)));
    assert.is.not(new Digests('secret two', false).of(asks), recorded);
    assert.ok(digests.matches(recorded, asks));
    assert.not.ok(digests.matches(recorded, keyed('who knew it')));
  }
});

test('a digest recorded under other settings, or by an earlier version, still recognises another request', () => {
  const [kept, omitting] = [new Digests('secret', true), new Digests('secret', false)];
  for (const [recorder, reader] of [
    [kept, omitting],
    [omitting, kept],
  ] as const) {
    assert.ok(reader.matches(recorder.of(keyed('a')) ?? '', keyed('a')));
    assert.not.ok(reader.matches(recorder.of(keyed('a')) ?? '', keyed('b')));
  }
  assert.is(kept.of(keyed('a')), requestDigest(keyed('a')));
});

test('a key that the command line made for one run has no digest, and still finds its run', async () => {
  const { runtime, store } = await bootRuntime({ local: answering() });
  const own = { prompt: 'a', idempotency_key: `svc-run-${randomUUID()}` };
  const first = await runtime.runs.start(own, 'test');
  assert.is((await runtime.runs.start(own, 'test')).id, first.id);
  const [accepted] = (await store.readAll(1, 100)).filter(({ type }) => type === 'run.accepted');
  assert.is(accepted?.data.request_digest, null);
});

test('a key whose request was refused is free for the next request, whatever it asks', async () => {
  const store = createMemoryStore();
  const { runtime } = await bootRuntime({ local: answering(), store });
  assert.is(
    await codeOf(runtime.runs.start(keyed('a', { provider: 'nobody' }), 'test')),
    'provider_unknown',
  );
  assert.is(await codeOf(runtime.runs.start(keyed('b'), 'test')), null);
});

test('of several requests with one key, the next is tried when the first is refused', async () => {
  const store = createMemoryStore();
  const { runtime } = await bootRuntime({ local: answering(), store });
  const codes = await Promise.all([
    codeOf(runtime.runs.start(keyed('a', { provider: 'nobody' }), 'test')),
    codeOf(runtime.runs.start(keyed('a'), 'test')),
    codeOf(runtime.runs.start(keyed('a'), 'test')),
  ]);
  assert.equal(codes, ['provider_unknown', null, null]);
  assert.is(await acceptedIn(store), 1);
});

test('a run that finds the disk full is withdrawn and frees its key, also at the next start', async () => {
  const store = gatedStore(createMemoryStore());
  const local = answering();
  const { runtime, clock, kernel } = await bootRuntime({ local, store });
  store.failWith(new SvcError('store_full'));
  assert.is(await codeOf(runtime.runs.start(keyed('a'), 'test')), 'store_full');
  assert.is(await codeOf(runtime.runs.start(keyed('a'), 'test')), 'store_full');
  store.failWith(null);
  clock.advance(1000);
  await turns(20);
  assert.is(await store.getRunByKey('key-1'), null);
  assert.equal(local.asked, []);
  const { id } = await runtime.runs.start(keyed('b'), 'test');
  // No commit of this boot may come after the next boot has begun.
  await turns(20);
  kernel.close();
  const after = await bootRuntime({ local: answering(), store, boot_id: 'boot_2' });
  assert.is((await after.runtime.runs.start(keyed('b'), 'test')).id, id);
});

test.run();
