import type { Worker } from 'node:worker_threads';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createSqliteStore } from '../../../src/kernel/store/sqlite/sqlite.ts';
import { codeOf, makePlace, type Place, placed, series } from './samples.ts';

/** Opens a store, and returns it with its thread. */
async function openWithThread(place: Place) {
  const started = new Promise<Worker>((resolve) => process.once('worker', resolve));
  const store = makePlace(place.folder, createSqliteStore).store();
  await store.open();
  return { store, worker: await started };
}

for (const [event, harm] of [
  ['is ended from outside', (worker: Worker) => void worker.terminate()],
  ['throws where nobody catches', (worker: Worker) => worker.postMessage(null)],
] as const) {
  test(
    `a thread that ${event} fails everything that waits for it, and the log can be opened again`,
    placed(async (place) => {
      const { store, worker } = await openWithThread(place);
      await store.append(series(1, 10));
      const check = codeOf(store.verify());
      harm(worker);
      const asked = [
        check,
        codeOf(store.append(series(11, 10))),
        codeOf(store.readAll(1, 10)),
        codeOf(store.countRuns()),
      ];
      const [first, ...others] = await Promise.all(asked);
      assert.ok(
        first === 'store_failed' || first === null,
        'what was asked before may have been done',
      );
      assert.equal(others, ['store_failed', 'store_failed', 'store_failed']);
      assert.is(
        await codeOf(store.append(series(11, 1))),
        'store_failed',
        'and what is asked later',
      );
      await store.close();
      const again = makePlace(place.folder, createSqliteStore).store();
      const { last_seq } = await again.open();
      assert.is(last_seq, 10);
      await again.close();
    }),
  );
}

test(
  'commits pass a check of everything',
  placed(async (place) => {
    const { store } = await openWithThread(place);
    for (let first = 1; first <= 20_001; first += 4000) await store.append(series(first, 4000));
    const order: string[] = [];
    const check = store.verify().then((report) => {
      order.push('check');
      return report;
    });
    for (let seq = 24_001; seq <= 24_003; seq += 1)
      await store.append(series(seq, 1)).then(() => order.push('commit'));
    assert.equal(await check, { ok: true, events: 24_003, problems: [] });
    assert.equal(order, ['commit', 'commit', 'commit', 'check']);
    await store.close();
  }),
);

test.run();
