import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { accepted, bootKernel, gatedStore } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';

const RUNS = Array.from({ length: 7 }, (_, index) => `run_${index}`);

/** A kernel whose commit of all runs is on its way to the disk. Each run is one append. */
async function holdRuns(publish_events: number) {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock } = await bootKernel({ store, limits: { publish_events } });
  const heard: StoredEvent[] = [];
  const settled: string[] = [];
  kernel.subscribe('all', (event) => heard.push(event));
  store.hold();
  await turns();
  const appends = RUNS.map((run) =>
    kernel.append([accepted(run, clock.now())]).then(() => settled.push(run)),
  );
  await turns();
  return { kernel, store, clock, heard, settled, appends };
}

test('one turn makes a part of a large commit visible, and each later turn the next part', async () => {
  const { kernel, store, heard, settled, appends } = await holdRuns(3);
  store.release();
  const seen: number[][] = [];
  while (settled.length < RUNS.length) {
    await turns(1);
    assert.is(kernel.durableSeq, heard.length);
    assert.is(settled.length, heard.length);
    assert.is(kernel.backlog, RUNS.length - heard.length);
    seen.push(heard.slice(seen.flat().length).map(({ seq }) => seq));
  }
  await Promise.all(appends);
  assert.equal(
    seen.filter((part) => part.length > 0),
    [[1, 2, 3], [4, 5, 6], [7]],
  );
  assert.equal(settled, RUNS);
  assert.equal(store.appends, [RUNS.length], 'one commit');
});

test('the requests that one turn answers share a commit, each in its own callback', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock } = await bootKernel({ store });
  const before = store.appends.length;
  const answered = RUNS.map(
    (run) =>
      new Promise<void>((resolve, reject) =>
        setImmediate(() => kernel.append([accepted(run, clock.now())]).then(resolve, reject)),
      ),
  );
  await Promise.all(answered);
  assert.equal(store.appends.slice(before), [RUNS.length]);
});

test('an append becomes visible whole, however large it is', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock } = await bootKernel({ store, limits: { publish_events: 2 } });
  const turnsOf: number[] = [];
  let turn = 0;
  kernel.subscribe('all', () => turnsOf.push(turn));
  store.hold();
  const large = kernel.append(RUNS.map((run) => accepted(run, clock.now())));
  const small = kernel.append([accepted('run_small', clock.now())]);
  await turns();
  store.release();
  for (; turn < 5; turn += 1) await turns(1);
  await Promise.all([large, small]);
  assert.equal(new Set(turnsOf.slice(0, RUNS.length)).size, 1);
  assert.ok((turnsOf.at(-1) ?? 0) > (turnsOf[0] ?? 0), String(turnsOf));
});

test('a later commit becomes visible after what waits of the one before', async () => {
  const { kernel, store, clock, heard, appends } = await holdRuns(2);
  store.release();
  const later = kernel.append([accepted('run_later', clock.now())]);
  await Promise.all([...appends, later]);
  assert.equal(
    heard.map(({ seq }) => seq),
    [1, 2, 3, 4, 5, 6, 7, 8],
  );
  assert.is(heard.at(-1)?.stream, 'run_later');
});

test('an event comes with its own state, also from a commit that is shown in parts', async () => {
  const { kernel, store, clock, heard, appends } = await holdRuns(1);
  const states: (number | undefined)[] = [];
  kernel.subscribe({ machine: 'run' }, ({ stream }) => states.push(kernel.instance(stream)?.seq));
  store.release();
  await Promise.all(appends);
  assert.equal(
    states,
    heard.map(({ seq }) => seq),
  );
  await kernel.append([accepted('run_next', clock.now())]);
  assert.is(kernel.durableSeq, RUNS.length + 1);
});

test.run();
