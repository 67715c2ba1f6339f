import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { NewEvent } from '../../machines/events.ts';
import type { RunEvent } from '../../machines/run/context.ts';
import { isIn } from '../../machines/step.ts';
import { SvcError } from '../../src/errors.ts';
import { accepted, bootKernel, gatedStore } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';

const RUN = 'run_1';
const PROVIDER = 'provider:p:boot_1';
const PROBE_MS = 5_000;

async function boot() {
  const store = gatedStore(createMemoryStore());
  const harness = await bootKernel({ store });
  const { kernel, clock, effects } = harness;
  return {
    ...harness,
    store,
    fill: () => store.failWith(new SvcError('store_full')),
    free: () => store.failWith(null),
    /** Lets time pass in steps, and waits for the effects of each step. */
    pass: async (ms: number, step = 100) => {
      for (let passed = 0; passed < ms; passed += step) {
        clock.advance(step);
        await turns();
      }
    },
    say: (event: NewEvent<RunEvent>) => void kernel.tryAppend(RUN, event),
    asked: () => effects.map(({ effect }) => effect.type),
    types: async (stream: string) =>
      (await store.readStream(stream, 1, 1000)).map(({ type }) => type),
    configure: () =>
      kernel.append([
        {
          stream: PROVIDER,
          event: {
            type: 'provider.configured',
            provider_id: 'p',
            kind: 'local',
            adapter: 'a',
            base_url: null,
            failure_limit: 3,
            probe_every_ms: 1_000,
            probe_timeout_ms: PROBE_MS,
          },
        },
      ]),
  };
}

test('a full disk gets one commit attempt a second, however many events arrive', async () => {
  const { kernel, clock, store, fill, free, pass } = await boot();
  fill();
  const waiting: Promise<void>[] = [];
  for (let index = 0; index < 80; index += 1) {
    waiting.push(
      kernel.append([
        accepted(`run_${index}`, clock.now(), { queue_deadline_at: 1e12, deadline_at: 1e12 }),
      ]),
    );
    await turns(1);
  }
  assert.is(store.appends.length, 1);
  await pass(10_000);
  assert.is(store.appends.length, 11);
  free();
  await pass(1_000);
  await Promise.all(waiting);
  assert.is(store.appends.length, 12);
});

test('a probe that waits for its commit does not fail, and gets its whole time once it starts', async () => {
  const { kernel, effects, configure, fill, free, pass, types, asked } = await boot();
  await configure();
  fill();
  await pass(30_000);
  assert.is(kernel.backlog, 1);
  free();
  await pass(1_000);
  assert.equal(asked(), ['probeProvider']);
  await pass(PROBE_MS - 1_000);
  assert.ok(isIn(kernel.snapshot(PROVIDER), 'probing'));
  assert.equal(await types(PROVIDER), ['provider.configured', 'provider.probe_started']);
  await pass(1_000);
  assert.equal((await types(PROVIDER)).slice(2, 3), ['provider.probe_failed']);
  assert.is(effects.length, 1);
});

test('the time of a run passes while its events wait, and the grace of its work starts with the request to stop', async () => {
  const { kernel, clock, fill, free, pass, say, types, asked } = await boot();
  await kernel.append([
    accepted(RUN, clock.now(), { deadline_at: clock.now() + 4_000, idle_ms: 3_000 }),
  ]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  fill();
  say({ type: 'run.output_appended', attempt: 1, text: 'x', token_ids: [] });
  await pass(30_000);
  assert.is(kernel.backlog, 2);
  free();
  await pass(100);
  const before = ['run.accepted', 'run.started', 'run.output_appended', 'run.deadline_passed'];
  assert.equal(await types(RUN), before);
  assert.equal(asked(), ['startAttempt', 'stopAttempt']);
  await pass(900);
  assert.equal(await types(RUN), before);
  await pass(100);
  assert.equal(await types(RUN), [...before, 'run.timed_out']);
});

test('an attempt whose start waits for its commit gets its whole time to begin, and the run gets no more time', async () => {
  const { kernel, clock, fill, free, pass, say, types } = await boot();
  const now = clock.now();
  await kernel.append([accepted(RUN, now, { deadline_at: now + 36_000, first_output_ms: 5_000 })]);
  fill();
  say({ type: 'run.started', attempt: 1 });
  await pass(30_000);
  free();
  await pass(1_000);
  await pass(4_000);
  assert.equal(await types(RUN), ['run.accepted', 'run.started']);
  say({ type: 'run.output_appended', attempt: 1, text: 'x', token_ids: [] });
  await turns();
  await pass(1_000);
  assert.equal((await types(RUN)).slice(3), ['run.deadline_passed']);
});

test('the deadline of a run fires on time, even when an event is always on its way', async () => {
  const { kernel, clock, store, say, types } = await boot();
  await kernel.append([accepted(RUN, clock.now(), { deadline_at: clock.now() + 4_000 })]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  for (let passed = 0; passed < 4_500; passed += 100) {
    store.hold();
    say({ type: 'run.output_appended', attempt: 1, text: 'x', token_ids: [] });
    clock.advance(100);
    await turns();
    store.release();
    await turns();
  }
  assert.ok((await types(RUN)).includes('run.deadline_passed'));
});

test.run();
