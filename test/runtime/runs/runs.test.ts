import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import type { EventRecord } from '../../../src/contract/contract.ts';
import { promptOf } from '../../../src/contract/messages/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { EventSlice } from '../../../src/kernel/event-pages.ts';
import { type EventData, eventData } from '../../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../../helpers/events.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';

const never = new AbortController().signal;
const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

async function follow(slices: AsyncIterable<EventSlice<EventData>>): Promise<EventRecord[]> {
  const all: EventRecord[] = [];
  for await (const event of eventsOf(slices)) all.push(event);
  return all;
}

test('a run is accepted, started, its text appended and completed, with no other event', async () => {
  const local = new ScriptedProvider('local', [output('Hello', 1), output(' you', 2), finish()]);
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const events = await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  assert.is(events[0]?.type, 'run.accepted');
  assert.is(events[1]?.type, 'run.started');
  assert.is(events.at(-1)?.type, 'run.completed');
  const text = events
    .flatMap((event) => (event.type === 'run.output_appended' ? [event.data.text] : []))
    .join('');
  assert.is(text, 'Hello you');
  const done = await runtime.runs.get(run.id);
  assert.is(done.state, 'completed');
  assert.is(done.output, 'Hello you');
  assert.equal(done.usage, { input_tokens: 1, output_tokens: 1 });
  assert.is(local.open, 0);
});

test('a run is on disk before its provider gets it', async () => {
  const store = createMemoryStore();
  let known: string[] = [];
  const local = new ScriptedProvider('local', ({ run_id }) => [
    async () => {
      known = (await store.readStream(run_id, 1, 10)).map((event) => event.type);
    },
    finish(),
  ]);
  const { runtime } = await bootRuntime({ local, store });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  assert.equal(known, ['run.accepted', 'run.started']);
});

test('a retryable failure before any output is retried after a wait, a bounded number of times', async () => {
  const failure = new SvcError('provider_busy', 'busy', { retryable: true });
  const local = new ScriptedProvider('local', [failure]);
  const { runtime, clock } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const following = follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  for (let round = 0; round < 6; round += 1) {
    await turns();
    clock.advance(5_000);
  }
  const types = (await following).map((event) => event.type);
  assert.equal(types, [
    'run.accepted',
    'run.started',
    'run.attempt_failed',
    'run.started',
    'run.attempt_failed',
    'run.started',
    'run.failed',
  ]);
  assert.equal(
    local.asked.map((asked) => asked.attempt),
    [1, 2, 3],
  );
  assert.is((await runtime.runs.get(run.id)).error?.code, 'provider_busy');
});

test('with the policy end, a failure after output is final: lost work is interrupted, an error is failed, the text stays', async () => {
  for (const [lost, state] of [
    [true, 'interrupted'],
    [false, 'failed'],
  ] as const) {
    const local = new ScriptedProvider('local', [
      output('half'),
      new SvcError('engine_crashed', 'gone', { retryable: true, lost }),
    ]);
    const { runtime } = await bootRuntime({ local });
    const run = await runtime.runs.start({ prompt: 'hi', recovery: 'end' }, 'test');
    await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
    const done = await runtime.runs.get(run.id);
    assert.is(done.state, state);
    assert.is(done.output, 'half');
    assert.is(local.asked.length, 1);
  }
});

test('when the engine dies under an answer the run resumes from its recorded output, and the daemon continues', async () => {
  const words = ['one ', 'two ', 'three ', 'four'];
  const computed = { threads: 2, prompt_parts: [45, 3, 20] };
  const known = { parts: [], batched: false, model_file: null };
  const died = new SvcError('engine_crashed', 'gone', { retryable: true, lost: true });
  const local = new ScriptedProvider('local', ({ resume }) => {
    const from = resume?.token_ids.length ?? 0;
    const parts = words
      .slice(from)
      .map((word, index) => ({ ...output(word, from + index), ...computed }));
    return from < 2 ? [...parts.slice(0, 1), died] : [...parts, finish()];
  });
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const types = (await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }))).map(
    (event) => event.type,
  );
  const lost = ['run.started', 'run.output_appended', 'run.suspended'];
  assert.equal(
    types.filter((type, index) => type !== types[index - 1]),
    ['run.accepted', ...lost, ...lost, 'run.started', 'run.output_appended', 'run.completed'],
  );
  const done = await runtime.runs.get(run.id);
  assert.equal([done.state, done.output, done.attempts], ['completed', words.join(''), 3]);
  assert.equal(
    local.asked.map(({ resume }) => resume),
    [
      null,
      { text: 'one ', token_ids: [0], ...known, ...computed },
      { text: 'one two ', token_ids: [0, 1], ...known, ...computed },
    ],
  );
});

test('a run whose engine dies before any text is retried after a wait, as after any failure', async () => {
  const died = new SvcError('engine_crashed', 'gone', { retryable: true, lost: true });
  const local = new ScriptedProvider('local', ({ attempt }) =>
    attempt === 1 ? [died] : [output('a'), finish()],
  );
  const { runtime, clock } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  assert.is((await runtime.runs.get(run.id)).state, 'backoff');
  clock.advance(500);
  await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  assert.is((await runtime.runs.get(run.id)).output, 'a');
});

test('a run that loses its work after every restart is given up at its limit of losses, and keeps its text', async () => {
  const died = new SvcError('engine_crashed', 'gone', { retryable: true, lost: true });
  const local = new ScriptedProvider('local', [output('half', 1), died]);
  const { runtime } = await bootRuntime({ local, limits: { run_losses: 3 } });
  const run = await runtime.runs.start({ prompt: 'hi', recovery: 'restart' }, 'test');
  await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  const done = await runtime.runs.get(run.id);
  assert.equal(
    [done.state, done.output, done.error?.code],
    ['interrupted', 'half', 'engine_crashed'],
  );
  assert.equal(
    local.asked.map(({ resume }) => resume),
    [null, null, null, null],
  );
});

test('a stream that ends without a finish is a failure, not an answer', async () => {
  const local = new ScriptedProvider('local', [output('half')]);
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi', recovery: 'end' }, 'test');
  await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  assert.is((await runtime.runs.get(run.id)).error?.code, 'stream_truncated');
});

test('a foreign error of a provider is shown to no client', async () => {
  const local = new ScriptedProvider('local', [new TypeError('secret sk-123 at /home/me')]);
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const events = await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  assert.not.match(JSON.stringify([events, await runtime.runs.get(run.id)]), /sk-123/);
});

test('cancel returns when the work has stopped, and returns the same answer again', async () => {
  const local = new ScriptedProvider('local', (_, signal) => [output('a'), untilAborted(signal)]);
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  assert.is(local.open, 1);
  const cancelled = await runtime.runs.cancel(run.id, 'test');
  assert.is(local.open, 0);
  assert.is(cancelled.state, 'cancelled');
  assert.is(cancelled.output, 'a');
  assert.equal(await runtime.runs.cancel(run.id, 'test'), cancelled);
});

test('a queued run can be cancelled before it is sent', async () => {
  const hold = gate();
  const local = new ScriptedProvider('local', [() => hold.opened, finish()]);
  const { runtime } = await bootRuntime({ local, limits: { local_runs: 1 } });
  const first = await runtime.runs.start({ prompt: '1' }, 'test');
  const second = await runtime.runs.start({ prompt: '2' }, 'test');
  assert.is((await runtime.runs.get(second.id)).queue_position, 1);
  assert.is((await runtime.runs.cancel(second.id, 'test')).state, 'cancelled');
  hold.open();
  await follow(runtime.runs.follow(first.id, { form: eventData, signal: never }));
  assert.is(local.asked.length, 1);
});

test('work that does not stop is given up when its grace ends', async () => {
  const local = new ScriptedProvider('local', () => [
    output('a'),
    () => new Promise<void>(() => {}),
  ]);
  const { runtime, clock } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  const cancelling = runtime.runs.cancel(run.id, 'test');
  await turns();
  assert.is((await runtime.runs.get(run.id)).state, 'cancelling');
  clock.advance(10_000);
  assert.is((await cancelling).state, 'cancelled');
});

test('silence, a slow start and a long run each time out and stop the work', async () => {
  for (const script of [
    (_: unknown, signal: AbortSignal) => [untilAborted(signal)],
    (_: unknown, signal: AbortSignal) => [output('a'), untilAborted(signal)],
  ]) {
    const local = new ScriptedProvider('local', script);
    const { runtime, clock } = await bootRuntime({ local });
    const run = await runtime.runs.start({ prompt: 'hi', timeout_ms: 5_000 }, 'test');
    await turns();
    clock.advance(5_000);
    await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
    const done = await runtime.runs.get(run.id);
    assert.is(done.state, 'timed_out');
    assert.is(done.error?.code, 'run_timed_out');
    assert.is(local.open, 0);
  }
});

test('runs start in the order of their arrival, within the limit', async () => {
  const gates = [gate(), gate(), gate()];
  const local = new ScriptedProvider('local', ({ request }) => [
    () => (gates[Number(promptOf(request))] as ReturnType<typeof gate>).opened,
    finish(),
  ]);
  const { runtime } = await bootRuntime({ local, limits: { local_runs: 1 } });
  for (const prompt of ['0', '1', '2']) await runtime.runs.start({ prompt }, 'test');
  for (const index of [0, 1, 2]) {
    await turns();
    assert.equal(
      local.asked.map((asked) => promptOf(asked.request)),
      ['0', '1', '2'].slice(0, index + 1),
    );
    gates[index]?.open();
  }
});

test('a full queue refuses runs, and accepts again when a run has ended', async () => {
  const hold = gate();
  const local = new ScriptedProvider('local', [() => hold.opened, finish()]);
  const { runtime } = await bootRuntime({ local, limits: { queue_runs: 2, local_runs: 1 } });
  const runs = [
    await runtime.runs.start({ prompt: '1' }, 'test'),
    await runtime.runs.start({ prompt: '2' }, 'test'),
  ];
  assert.is(runtime.status().state_path, 'running.saturated');
  assert.is(await codeOf(runtime.runs.start({ prompt: '3' }, 'test')), 'busy');
  hold.open();
  for (const run of runs)
    await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  await turns();
  assert.is(runtime.status().state, 'ready');
  await runtime.runs.start({ prompt: '3' }, 'test');
});

test('a daemon that is starting or stopping refuses runs, with the reason', async () => {
  const local = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const early = await bootRuntime({ local, until: 'recovered' });
  assert.is(
    await codeOf(early.runtime.runs.start({ prompt: 'x', provider: 'other' }, 'test')),
    'not_ready',
    'which providers there are is not known yet',
  );
  assert.is(
    await codeOf(
      early.providers.open().then(() => early.runtime.runs.start({ prompt: 'x' }, 'test')),
    ),
    'not_ready',
  );
  const { runtime } = await bootRuntime({ local });
  await runtime.runs.start({ prompt: 'x' }, 'test');
  await runtime.lifecycle({ type: 'stop_requested' }, 'test');
  assert.is(runtime.status().state_path, 'stopping.draining');
  assert.is(await codeOf(runtime.runs.start({ prompt: 'x' }, 'test')), 'daemon_stopping');
});

test('a run that a start has not recovered yet cannot be followed: a follower would miss its end', async () => {
  const store = createMemoryStore();
  const stuck = new ScriptedProvider('local', (_, signal) => [
    output('so far', 7),
    untilAborted(signal),
  ]);
  const before = await bootRuntime({ local: stuck, store });
  const { id } = await before.runtime.runs.start({ prompt: 'x' }, 'test');
  await turns();
  before.kernel.close();
  const { runtime } = await bootRuntime({
    local: stuck,
    store,
    boot_id: 'boot_2',
    until: 'opened',
  });
  assert.is(
    await codeOf(follow(runtime.runs.follow(id, { form: eventData, signal: never }))),
    'not_ready',
  );
});

test('a start after a crash ends runs with the policy end, keeps the queue in order, and every run ends once', async () => {
  const store = createMemoryStore();
  const stuck = new ScriptedProvider('local', (_, signal) => [
    output('so far', 7),
    untilAborted(signal),
  ]);
  const before = await bootRuntime({ local: stuck, store, limits: { local_runs: 1 } });
  const ids: string[] = [];
  for (const prompt of ['1', '2', '3'])
    ids.push((await before.runtime.runs.start({ prompt, recovery: 'end' }, 'test')).id);
  await turns();
  before.kernel.close();

  const local = new ScriptedProvider('local', [output('done'), finish()]);
  const after = await bootRuntime({ local, store, boot_id: 'boot_2', limits: { local_runs: 1 } });
  for (const id of ids.slice(1))
    await follow(after.runtime.runs.follow(id, { form: eventData, signal: never }));
  const records = await Promise.all(ids.map((id) => after.runtime.runs.get(id)));
  assert.equal(
    records.map((run) => [run.state, run.output]),
    [
      ['interrupted', 'so far'],
      ['completed', 'done'],
      ['completed', 'done'],
    ],
  );
  assert.equal(
    local.asked.map((asked) => promptOf(asked.request)),
    ['2', '3'],
  );
  for (const id of ids)
    assert.is(
      (await store.readStream(id, 1, 100)).filter((event) => isTerminalEvent(event.type)).length,
      1,
    );
  assert.equal(await store.unfinishedRuns(), []);
});

test('a slow commit makes larger chunks, and no text is lost or doubled', async () => {
  const words = Array.from({ length: 200 }, (_, index) => `${index} `);
  const local = new ScriptedProvider('local', [
    ...words.map((word, index) => output(word, index)),
    finish(),
  ]);
  const { runtime } = await bootRuntime({ local });
  const run = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const events = await follow(runtime.runs.follow(run.id, { form: eventData, signal: never }));
  const chunks = events.filter((event) => event.type === 'run.output_appended');
  assert.is(chunks.map((event) => event.data.text).join(''), words.join(''));
  assert.equal(
    chunks.flatMap((event) => event.data.token_ids as number[]),
    words.map((_, index) => index),
  );
  assert.ok(chunks.length < words.length);
});

test('an unknown run is refused as unknown', async () => {
  const { runtime } = await bootRuntime({ local: new ScriptedProvider('local', []) });
  assert.is(await codeOf(runtime.runs.get('run_none')), 'run_unknown');
  assert.is(await codeOf(runtime.runs.cancel('run_none', 'test')), 'run_unknown');
  assert.is(
    await codeOf(follow(runtime.runs.follow('run_none', { form: eventData, signal: never }))),
    'run_unknown',
  );
  const long = 'x'.repeat(1_000_000);
  const messages = [
    runtime.runs.get(long),
    runtime.runs.cancel(long, 'test'),
    runtime.history.runAt(long, 1),
  ].map((asked) => asked.catch(({ message }) => message));
  for (const message of await Promise.all(messages))
    assert.ok(message.length < 200, 'no more of an id is repeated than helps');
});

test('the stream of another machine is no run: it cannot be shown, followed or cancelled', async () => {
  const { runtime, streams } = await bootRuntime({ local: new ScriptedProvider('local', []) });
  const { signal } = new AbortController();
  const follow = async () => {
    for await (const _ of runtime.runs.follow(streams.daemon, { form: eventData, signal }));
  };
  assert.is(await codeOf(runtime.runs.get(streams.daemon)), 'run_unknown');
  assert.is(await codeOf(follow()), 'run_unknown');
  assert.is(await codeOf(runtime.runs.cancel(streams.daemon, 'test')), 'run_unknown');
});

test.run();
