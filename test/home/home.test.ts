import { chmodSync, chownSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { reserveFile } from '../../src/kernel/store/files/reserve.ts';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { SMALL_RESERVE } from '../helpers/small-reserve.ts';
import { startWriter } from '../kernel/store/process.ts';
import { filled, type Place, placed } from '../kernel/store/samples.ts';

/** Root may write anywhere, so another user tries what must fail. */
const USER = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

async function refusal(place: Pick<Place, 'database' | 'highWater'>): Promise<SvcError> {
  const store = createSqliteStore({ ...place, limits: SMALL_RESERVE });
  return store.open().then(
    async () => {
      await store.close();
      throw new Error('it was opened');
    },
    (error: SvcError) => error,
  );
}

async function refusalAsUser(place: Place): Promise<string> {
  const writer = startWriter(place, USER);
  const said = await writer.says('open', 'refused');
  await writer.end('close');
  return said;
}

/** Makes the user of the other process the owner. */
function give(...paths: string[]): void {
  if (USER.uid !== undefined) for (const path of paths) chownSync(path, USER.uid, USER.gid);
}

test(
  'a file in place of the folder is named',
  placed(async (place) => {
    writeFileSync(`${place.folder}/data`, '');
    const error = await refusal(place);
    assert.is(error.code, 'home_unusable');
    assert.match(error.message, `${place.folder}/data`);
    assert.match(error.hint, 'Move away what is in its place');
  }),
);

test(
  'a folder in place of the database or the mark is named',
  placed(async (place) => {
    mkdirSync(place.database, { recursive: true });
    const error = await refusal(place);
    assert.is(error.code, 'store_foreign');
    assert.match(error.message, `${place.database} is not a file`);
    const other = {
      database: `${place.folder}/data/other.db`,
      highWater: `${place.folder}/data/mark`,
    };
    mkdirSync(other.highWater);
    const second = await refusal(other);
    assert.is(second.code, 'home_unusable');
    assert.is(second.message, `${other.highWater} is a folder; a file of svc belongs there.`);
    assert.match(second.hint, 'Move away what is in its place');
    const third = {
      database: `${place.folder}/third/other.db`,
      highWater: `${place.folder}/third/mark`,
    };
    mkdirSync(reserveFile(third.database), { recursive: true });
    const refused = await refusal(third);
    assert.is(
      refused.message,
      `${reserveFile(third.database)} is a folder; a file of svc belongs there.`,
    );
    assert.match(refused.hint, 'Move away what is in its place');
  }),
);

test(
  'a folder that the user may not write is named',
  placed(async (place) => {
    mkdirSync(`${place.folder}/data`);
    give(place.folder, `${place.folder}/data`);
    chmodSync(`${place.folder}/data`, 0o500);
    const said = await refusalAsUser(place);
    chmodSync(`${place.folder}/data`, 0o700);
    assert.match(said, 'refused home_unusable');
    assert.match(said, `${place.folder}/data `);
  }),
);

test(
  'a folder that cannot be made is named',
  placed(async (place) => {
    give(place.folder);
    chmodSync(place.folder, 0o500);
    const said = await refusalAsUser(place);
    chmodSync(place.folder, 0o700);
    assert.match(said, `refused home_unusable ${place.folder}/data`);
  }),
);

test(
  'a database that the user may not write is named, and not changed',
  placed(async (place) => {
    await filled(place, 1);
    give(place.folder, `${place.folder}/data`, place.highWater);
    chmodSync(place.database, 0o444);
    if (USER.uid !== undefined) chownSync(place.database, 0, 0);
    const said = await refusalAsUser(place);
    assert.match(said, `refused home_unusable ${place.database}`);
    assert.is(statSync(place.database).mode & 0o777, 0o444);
  }),
);

test(
  'a database that others could read is made private',
  placed(async (place) => {
    await filled(place, 1);
    chmodSync(place.database, 0o644);
    const store = place.store();
    await store.open();
    assert.is(statSync(place.database).mode & 0o777, 0o600);
    await store.close();
  }),
);

test(
  'one database under two names is still one',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    symlinkSync(place.database, `${place.folder}/link.db`);
    symlinkSync(`${place.folder}/data`, `${place.folder}/linked`);
    for (const database of [`${place.folder}/link.db`, `${place.folder}/linked/events.db`]) {
      assert.is(
        (await refusal({ database, highWater: place.highWater })).code,
        'daemon_already_running',
      );
      const other = startWriter({ database, highWater: place.highWater });
      assert.match(await other.says('refused'), 'daemon_already_running');
      await other.end('close');
    }
    await store.close();
  }),
);

test.run();
