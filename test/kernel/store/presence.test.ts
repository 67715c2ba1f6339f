import { cpSync, renameSync, rmSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { createSqliteStore } from '../../../src/kernel/store/sqlite/sqlite.ts';
import { codeOf, makePlace, type Place, placed, series } from './samples.ts';

/** Long enough that one test sees only the first check by the clock. */
const LATER = { store_look_ms: 60_000, store_look_idle_ms: 3_600_000 };

async function opened(place: Place, limits: Parameters<Place['store']>[0]) {
  const store = place.store(limits);
  await store.open();
  for (const first of [1, 2]) await store.append(series(first, 1));
  return store;
}

for (const [what, remove] of [
  ['the database is removed', ({ database }: Place) => rmSync(database)],
  ['its WAL is removed', ({ database }: Place) => rmSync(`${database}-wal`)],
  ['the folder is removed', ({ folder }: Place) => rmSync(`${folder}/data`, { recursive: true })],
  [
    'a copy is renamed over the database',
    ({ database, folder }: Place) => {
      cpSync(database, `${folder}/copy`);
      renameSync(`${folder}/copy`, database);
    },
  ],
] as const) {
  test(
    `the first commit after ${what} is not acknowledged, nor is any later one`,
    placed(async (place) => {
      const store = await opened(place, LATER);
      remove(place);
      for (let time = 0; time < 2; time += 1) {
        const error = await store.append(series(3, 1)).then(
          () => null,
          (thrown: SvcError) => thrown,
        );
        assert.is(error?.code, 'store_failed');
        assert.match(error?.message ?? '', /was (removed|replaced)/);
      }
      await store.close().catch(() => {});
    }),
  );
}

test(
  'a commit finds a moved folder within the bound, and until then nothing is lost',
  placed(async (place) => {
    const store = await opened(place, LATER);
    renameSync(`${place.folder}/data`, `${place.folder}/away`);
    await store.append(series(3, 1));
    renameSync(`${place.folder}/away`, `${place.folder}/data`);
    await store.close();

    const strict = place.store({ ...LATER, store_look_ms: 0 });
    assert.is(
      (await strict.open()).last_seq,
      3,
      'what was acknowledged is in the files that were moved',
    );
    await strict.append(series(4, 1));
    renameSync(`${place.folder}/data`, `${place.folder}/away`);
    assert.is(await codeOf(strict.append(series(5, 1))), 'store_failed');
    await strict.close().catch(() => {});
  }),
);

test(
  'an idle daemon finds it too',
  placed(async (place) => {
    const { promise, resolve } = Promise.withResolvers<Error>();
    const threaded = makePlace(place.folder, createSqliteStore);
    const store = threaded.store({ ...LATER, store_look_idle_ms: 10 }, resolve);
    await store.open();
    renameSync(`${place.folder}/data`, `${place.folder}/away`);
    assert.match((await promise).message, 'was removed while the daemon ran');
    await store.close().catch(() => {});
  }),
);

test.run();
