import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { accepted, bootKernel, gatedStore } from '../helpers/kernel.ts';
import { turns } from '../helpers/turns.ts';

const LATE_MS = 5_000;

async function boot() {
  const store = gatedStore(createMemoryStore());
  const harness = await bootKernel({ store, limits: { commit_late_ms: LATE_MS } });
  const { kernel, clock } = harness;
  const told: string[] = [];
  kernel.stalls.onStall(({ code }) => told.push(code));
  kernel.stalls.onResume(() => told.push('resumed'));
  return {
    ...harness,
    store,
    told,
    propose: (id: string) => kernel.append([accepted(id, clock.now())]),
  };
}

test('a commit that does not return is a stall after its time, with its beginning, and ends when it returns', async () => {
  const { kernel, clock, store, told, propose } = await boot();
  store.hold();
  const waiting = propose('run_1');
  await turns();
  clock.advance(LATE_MS - 1);
  assert.is(kernel.stalled, null);
  clock.advance(1);
  assert.is(kernel.stalled?.code, 'store_stalled');
  assert.is(kernel.stalls.began_at, clock.now());
  assert.is(typeof kernel.stalled?.details?.retry_after_ms, 'number');
  clock.advance(600_000);
  assert.equal(told, ['store_stalled']);
  store.release();
  await waiting;
  assert.is(kernel.stalled, null);
  assert.equal(told, ['store_stalled', 'resumed']);
});

test('what is proposed during the stall is recorded behind it, with the time of its proposal', async () => {
  const { kernel, clock, store, propose } = await boot();
  store.hold();
  const waiting = [propose('run_1')];
  await turns();
  clock.advance(LATE_MS + 2_000);
  const at = clock.now();
  waiting.push(propose('run_2'));
  clock.advance(60_000);
  store.release();
  await Promise.all(waiting);
  const [event] = await store.readStream('run_2', 1, 1);
  assert.is(event?.at, at);
  assert.is(kernel.backlog, 0);
});

test('a commit that is late and then finds the disk full is told as both, and goes on when there is space', async () => {
  const { kernel, clock, store, told, propose } = await boot();
  store.hold();
  store.failWith(new SvcError('store_full'));
  const waiting = propose('run_1');
  await turns();
  clock.advance(LATE_MS);
  store.release();
  await turns();
  assert.is(kernel.stalled?.code, 'store_full');
  store.failWith(null);
  clock.advance(1_000);
  await waiting;
  assert.equal(told, ['store_stalled', 'store_full', 'resumed']);
});

test('commits that return in their time are no stall, however many there are', async () => {
  const { kernel, clock, told, propose } = await boot();
  for (let index = 0; index < 20; index += 1) {
    await propose(`run_${index}`);
    clock.advance(LATE_MS);
  }
  assert.is(kernel.stalled, null);
  assert.equal(told, []);
});

test.run();
