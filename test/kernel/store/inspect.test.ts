import { createHash } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inspectStore, type StoreContents } from '../../../src/kernel/store/inspect/inspect.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { startWriter } from './process.ts';
import { event, filled, type Place, placed, run, series } from './samples.ts';

async function contents(place: Place): Promise<StoreContents> {
  const found = await inspectStore(place);
  if (found.state !== 'read') throw new Error(`it is ${found.state}`);
  return found;
}

/** Name, size, time and content of each file. */
function fingerprint(folder: string) {
  return readdirSync(folder).map((name) => {
    const { size, mtimeMs } = statSync(`${folder}/${name}`);
    return [
      name,
      size,
      mtimeMs,
      createHash('sha256')
        .update(readFileSync(`${folder}/${name}`))
        .digest('hex'),
    ];
  });
}

const copies = () => readdirSync(tmpdir()).filter((name) => name.startsWith('svc-doctor-'));

/** A writer that was killed after one commit was acknowledged. */
async function killedWriter(place: Place) {
  const writer = startWriter(place);
  await writer.says('open');
  writer.command('one');
  await writer.says('acked');
  await writer.end('SIGKILL');
  return writer;
}

test(
  'without a log it says so, and whether there was one',
  placed(async (place) => {
    assert.equal(await inspectStore(place), { state: 'absent', high_water: null });
    await filled(place, 4);
    rmSync(place.database);
    const found = await inspectStore(place);
    assert.is(found.state === 'absent' && found.high_water?.seq, 4);
    assert.not.ok(readdirSync(`${place.folder}/data`).includes('events.db'));
  }),
);

test(
  'for a stopped daemon it reads last boot, unfinished runs, last events and check, and touches no file',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const boot = (seq: number, boot_id: string) =>
      event(seq, `daemon:${boot_id}`, 1, { type: 'daemon.boot_started', boot_id });
    await store.append({
      events: [
        boot(1, 'b1'),
        boot(2, 'b2'),
        event(3, 'daemon:b2', 2),
        event(4, 'run_1', 1),
        event(5, 'daemon:b2', 3),
      ],
      runs: [run('run_1', { seq: 4 })],
    });
    await store.append({
      events: Array.from({ length: 40 }, (_, index) => event(index + 6, 'run_2', index + 1)),
      runs: [run('run_2', { seq: 45, finished: true })],
    });
    await store.close();
    const before = fingerprint(`${place.folder}/data`);
    const found = await contents(place);
    assert.equal(fingerprint(`${place.folder}/data`), before);
    assert.is(found.last_seq, 45);
    assert.equal(
      found.last_events.map(({ seq }) => seq),
      Array.from({ length: 20 }, (_, index) => index + 26),
    );
    assert.is(found.last_boot?.boot_id, 'b2');
    assert.equal(
      found.last_boot?.events.map(({ seq }) => seq),
      [2, 3, 5],
    );
    assert.ok(found.last_boot?.complete);
    assert.equal([found.unfinished_runs, found.runs], [['run_1'], { finished: 1, unfinished: 1 }]);
    assert.is(found.high_water?.seq, 45);
    assert.equal(found.verify, { ok: true, events: 45, problems: [] });
    assert.is(found.database_bytes, statSync(place.database).size);
    assert.equal(copies(), []);
  }),
);

test(
  'the log of a killed daemon is read with its WAL, and not changed for the next start',
  placed(async (place) => {
    const writer = await killedWriter(place);
    const parts = [place.database, `${place.database}-wal`, place.highWater];
    const before = parts.map((file) => readFileSync(file));
    const found = await contents(place);
    assert.is(found.last_seq, writer.acked());
    assert.equal(found.unfinished_runs, ['run_1']);
    assert.ok(found.verify.ok);
    assert.ok(found.wal_bytes > 0);
    assert.ok(parts.every((file, index) => before[index]?.equals(readFileSync(file))));
    const store = place.store();
    assert.is((await store.open()).last_seq, writer.acked());
    assert.equal(
      readdirSync(`${place.folder}/data`).sort(),
      ['events.db', 'events.db-wal', 'events.high-water', 'events.reserve'],
      'what a reader left is cleared',
    );
    await store.close();
    assert.equal(copies(), []);
  }),
);

test(
  'an open log is not read, in this process or another, from the first moment on',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    assert.is((await inspectStore(place)).state, 'in_use');
    await store.append(series(1, 1));
    const intruder = startWriter(place);
    assert.match(await intruder.says('refused'), 'daemon_already_running');
    await intruder.end('close');
    await store.close();

    const writer = startWriter(place);
    await writer.says('open 1');
    const found = await inspectStore(place);
    assert.is(found.state, 'in_use');
    writer.command('one');
    await writer.says('acked');
    assert.is((await inspectStore(place)).state, 'in_use');
    await writer.end('close');
    assert.is((await contents(place)).last_seq, writer.acked());
  }),
);

test(
  'a lost end of the log is reported',
  placed(async (place) => {
    const writer = await killedWriter(place);
    truncateSync(`${place.database}-wal`, statSync(`${place.database}-wal`).size - 100);
    const { verify } = await contents(place);
    assert.equal(verify.problems, [
      `The event log ends at event 0, and had reached event ${writer.acked()}.`,
    ]);
  }),
);

test(
  'a changed event, a damaged file and a foreign one are reported',
  placed(async (place) => {
    await filled(place, 30);
    const bytes = readFileSync(place.database);
    writeFileSync(
      place.database,
      Buffer.from(bytes.toString('latin1').replace('{"seq":7}', '{"seq":8}'), 'latin1'),
    );
    assert.equal((await contents(place)).verify.problems, [
      'The event 7 of the log (test.happened) does not agree with its hash.',
    ]);

    writeFileSync(place.database, bytes.subarray(0, 3 * 4096));
    const damaged = await inspectStore(place);
    assert.is(damaged.state === 'unreadable' && damaged.error.code, 'store_corrupt');

    writeFileSync(place.database, 'nonsense');
    const foreign = await inspectStore(place);
    assert.is(foreign.state === 'unreadable' && foreign.error.code, 'store_foreign');
    rmSync(place.database);
    mkdirSync(place.database);
    const folder = await inspectStore(place);
    assert.is(folder.state === 'unreadable' && folder.error.code, 'store_foreign');
    assert.equal(copies(), []);
  }),
);

test(
  'a log that is larger than the limit is not copied',
  placed(async (place) => {
    await filled(place, 100);
    const found = await inspectStore({
      ...place,
      limits: { ...defaultLimits, inspect_bytes: 1000 },
    });
    assert.is(found.state, 'unreadable');
    assert.match(found.state === 'unreadable' ? found.error.message : '', 'too many to be copied');
  }),
);

test.run();
