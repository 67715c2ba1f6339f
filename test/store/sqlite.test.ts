import { readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { storeConformance } from './conformance.ts';
import { makePlace, placed, series } from './samples.ts';

storeConformance(test, () => {
  const place = makePlace();
  return { store: place.store(), again: () => place.store(), remove: place.remove };
});

test(
  'what durability rests on is read back and reported',
  placed(async (place) => {
    const store = place.store();
    const report = await store.open();
    assert.equal(report.durability, { journal_mode: 'wal', synchronous: 'full' });
    await store.close();
  }),
);

test(
  'the folder and all files are private, whatever the mode mask is',
  placed(async (place) => {
    const mask = process.umask(0);
    try {
      const store = place.store();
      await store.open();
      await store.append(series(1, 10));
      const folder = dirname(place.database);
      assert.is(statSync(folder).mode & 0o777, 0o700);
      assert.equal(readdirSync(folder).sort(), ['events.db', 'events.db-wal', 'events.high-water', 'events.reserve']);
      for (const file of readdirSync(folder)) assert.is(statSync(`${folder}/${file}`).mode & 0o777, 0o600, file);
      await store.close();
      assert.equal(readdirSync(folder).sort(), ['events.db', 'events.high-water', 'events.reserve'], 'a clean close leaves no other file');
    } finally {
      process.umask(mask);
    }
  }),
);

test.run();
