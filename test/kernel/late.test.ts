import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { accepted, bootKernel, gatedStore } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';

const LATE_MS = 5_000;

async function boot() {
  const store = gatedStore(createMemoryStore());
  const harness = await bootKernel({ store, limits: { commit_late_ms: LATE_MS } });
  const { kernel, clock } = harness;
  const reports: string[] = [];
  kernel.stalls.onStall(({ code }) => reports.push(code));
  kernel.stalls.onResume(() => reports.push('resumed'));
  return {
    ...harness,
    store,
    reports,
    propose: (id: string) => kernel.append([accepted(id, clock.now())]),
  };
}

test('a commit that exceeds its time is a stall with a beginning, and the stall ends when it returns', async () => {
  const { kernel, clock, store, reports, propose } = await boot();
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
  assert.equal(reports, ['store_stalled']);
  store.release();
  await waiting;
  assert.is(kernel.stalled, null);
  assert.equal(reports, ['store_stalled', 'resumed']);
});

test('proposals made during a stall are recorded after it, with the time of their proposal', async () => {
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

test('a late commit that then finds the disk full is reported as both, and continues when there is space', async () => {
  const { kernel, clock, store, reports, propose } = await boot();
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
  assert.equal(reports, ['store_stalled', 'store_full', 'resumed']);
});

test('commits that return in time are no stall, however many there are', async () => {
  const { kernel, clock, reports, propose } = await boot();
  for (let index = 0; index < 20; index += 1) {
    await propose(`run_${index}`);
    clock.advance(LATE_MS);
  }
  assert.is(kernel.stalled, null);
  assert.equal(reports, []);
});

test.run();
