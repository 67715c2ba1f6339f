import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chain, GENESIS } from '../../../../src/kernel/store/continuity.ts';
import { importOf } from '../../../../src/kernel/store/files/copies.ts';
import type { EventRow } from '../../../../src/kernel/store/row.ts';
import { openSqliteTarget } from '../../../../src/kernel/store/sqlite/import.ts';
import { defaultLimits } from '../../../../src/limits.ts';
import { SMALL_RESERVE } from '../../../helpers/small-reserve.ts';
import { event, type Place, placed } from '../samples.ts';

const limits = { ...defaultLimits, ...SMALL_RESERVE };
const rows = (first: number, count: number): EventRow[] =>
  Array.from({ length: count }, (_, index) => ({
    ...event(first + index, 's', first + index),
    data: JSON.stringify({ text: 'x'.repeat(200) }),
  }));

async function seqsOf(place: Place): Promise<number[]> {
  const store = place.store();
  await store.open();
  const seqs = (await store.readAll(1, 1000)).map(({ seq }) => seq);
  await store.close();
  return seqs;
}

test(
  'each batch is on the disk before the next one, and the log is as it was until the end',
  placed(async (place) => {
    const { database } = place;
    const target = openSqliteTarget({ ...place, limits });
    const size = () => statSync(importOf(database)).size;
    const empty = size();
    await target.append(rows(1, 100), []);
    const first = size();
    assert.ok(first > empty + 100 * 200, `${first} after ${empty}`);
    await target.append(rows(101, 100), []);
    assert.ok(size() > first + 100 * 200);
    assert.is(existsSync(`${importOf(database)}-journal`), false);
    assert.ok(statSync(database).size <= empty, 'the log itself has none of it');
    await target.finish();
    await target.close();
    assert.not.ok(existsSync(importOf(database)));
    const seqs = Array.from({ length: 200 }, (_, index) => index + 1);
    assert.equal(await seqsOf(place), seqs);
    const store = place.store();
    await store.open();
    assert.ok((await store.verify()).ok);
    await store.close();
  }),
);

test(
  'an import that fails or is cut off leaves an empty log, and nothing else',
  placed(async (place) => {
    const target = openSqliteTarget({ ...place, limits });
    await target.append(rows(1, 100), []);
    copyFileSync(importOf(place.database), `${place.folder}/cut-off`);
    await target.close();
    assert.not.ok(existsSync(importOf(place.database)));
    copyFileSync(`${place.folder}/cut-off`, importOf(place.database));
    assert.equal(await seqsOf(place), []);
    const left = readdirSync(`${place.folder}/data`).sort();
    assert.equal(left, ['events.db', 'events.high-water', 'events.reserve']);
  }),
);

test(
  'a log that died between its file and its mark has all of the import',
  placed(async (place) => {
    const target = openSqliteTarget({ ...place, limits });
    const mark = readFileSync(place.highWater);
    const batch = rows(1, 3);
    await target.append(batch, []);
    await target.finish();
    await target.close();
    assert.not.equal(readFileSync(place.highWater), mark);
    writeFileSync(place.highWater, mark);
    assert.equal(await seqsOf(place), [1, 2, 3]);
    const hash = batch.reduce((last, row) => chain(last, row), GENESIS);
    assert.match(readFileSync(place.highWater, 'latin1'), hash);
  }),
);

test.run();
