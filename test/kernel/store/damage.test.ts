import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LOG_FORMAT } from '../../../machines/events.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { EventRow } from '../../../src/kernel/store/row.ts';
import { EventLog } from '../../../src/kernel/store/sqlite/event-log.ts';
import { SMALL_RESERVE } from '../../helpers/small-reserve.ts';
import { startWriter } from './process.ts';
import { filled, type Place, placed, series } from './samples.ts';

/** The error of an open. */
async function refusal(place: Place): Promise<SvcError> {
  const store = place.store();
  return store.open().then(
    async () => {
      await store.close();
      throw new Error('it was opened');
    },
    (error: SvcError) => error,
  );
}

/** A log whose writer was killed, so that its WAL is still there. */
async function killed(place: Place): Promise<number> {
  const writer = startWriter(place);
  await writer.says('open');
  for (let time = 0; time < 5; time += 1) writer.command('one');
  while (writer.lines.filter((line) => line.startsWith('acked')).length < 5)
    await new Promise((resolve) => writer.child.stdout?.once('data', resolve));
  await writer.end('SIGKILL');
  return writer.acked();
}

/** Changes the stored text of an event in the database file. */
function overwrite(file: string, text: string, other: string): void {
  const bytes = readFileSync(file);
  const at = bytes.indexOf(text);
  assert.ok(at > 0, `${text} is in the file`);
  bytes.write(other, at);
  writeFileSync(file, bytes);
}

test(
  'a log with a truncated WAL is refused, with what to delete to continue without the lost events',
  placed(async (place) => {
    const acked = await killed(place);
    const wal = `${place.database}-wal`;
    const size = statSync(wal).size;
    truncateSync(wal, size - 5000);
    const error = await refusal(place);
    assert.is(error.code, 'store_tail_lost');
    assert.match(error.message, `had reached event ${acked}`);
    assert.match(error.hint, place.highWater);
    assert.is(statSync(wal).size, size - 5000, 'the WAL is left as it was found');
    assert.is((await refusal(place)).code, 'store_tail_lost', 'it stays refused');
    rmSync(place.highWater);
    assert.is((await refusal(place)).code, 'store_tail_lost', 'the mark is missed');
    writeFileSync(place.highWater, 'accept\n');
    const store = place.store();
    assert.ok((await store.open()).last_seq < acked);
    assert.is(statSync(`${wal}.kept`).size, size - 5000, 'the WAL is kept as it was found');
    assert.ok((await store.verify()).ok, 'what is left is whole');
    await store.close();
  }),
);

test(
  'a log without its WAL, or with a changed bit in it, is refused',
  placed(async (place) => {
    const acked = await killed(place);
    const saved = `${place.folder}/saved`;
    cpSync(`${place.folder}/data`, saved, { recursive: true });
    const size = statSync(`${saved}/events.db-wal`).size;
    for (const at of [null, 40, Math.floor(size / 2), size - 3000]) {
      rmSync(`${place.folder}/data`, { recursive: true });
      cpSync(saved, `${place.folder}/data`, { recursive: true });
      const wal = `${place.database}-wal`;
      if (at === null) rmSync(wal);
      else flip(wal, at);
      const error = await refusal(place);
      assert.is(error.code, 'store_tail_lost', `bit at ${at}: ${error.message}`);
      assert.is(error.details?.recorded_seq, acked);
    }
  }),
);

function flip(file: string, at: number): void {
  const bytes = readFileSync(file);
  bytes[at] = (bytes[at] ?? 0) ^ 4;
  writeFileSync(file, bytes);
}

test(
  'a log replaced by an older copy, by another log or by nothing is refused, and no new one is created',
  placed(async (place) => {
    await filled(place, 5);
    cpSync(place.database, `${place.folder}/older`);
    const store = place.store();
    await store.open();
    await store.append(series(6, 5));
    await store.close();
    cpSync(`${place.folder}/older`, place.database);
    assert.match((await refusal(place)).message, 'ends at event 5, and had reached event 10');

    writeFileSync(place.highWater, 'accept');
    await store.open();
    await store.append(series(6, 5, 's', { data: { another: true } }));
    await store.close();
    const mark = readFileSync(place.highWater);
    cpSync(`${place.folder}/older`, place.database);
    writeFileSync(place.highWater, 'accept');
    await store.open();
    await store.append(series(6, 7));
    await store.close();
    writeFileSync(place.highWater, mark);
    assert.match(
      (await refusal(place)).message,
      'The event 10 of the log is not the one that was recorded',
    );

    rmSync(place.database);
    assert.is((await refusal(place)).code, 'store_tail_lost');
    assert.not.ok(existsSync(place.database));
    writeFileSync(place.database, '');
    assert.is((await refusal(place)).code, 'store_tail_lost');
    assert.is(statSync(place.database).size, 0);
  }),
);

test(
  'a changed event near the end is found at the open, an old one by the check, by its number',
  placed(async (place) => {
    await filled(place, 1500);
    overwrite(place.database, '{"seq":77}', '{"seq":78}');
    const store = place.store();
    await store.open();
    const report = await store.verify();
    assert.equal(report, {
      ok: false,
      events: 1500,
      problems: ['The event 77 of the log (test.happened) does not agree with its hash.'],
    });
    await store.close();
    overwrite(place.database, '{"seq":1400}', '{"seq":1401}');
    const error = await refusal(place);
    assert.is(error.code, 'store_corrupt');
    assert.match(error.message, 'The event 1400 of the log');
  }),
);

test(
  'data that is no longer JSON is reported when it is read, and nothing crashes',
  placed(async (place) => {
    await filled(place, 1200);
    overwrite(place.database, '{"seq":50}', '{"seq":50"');
    const store = place.store();
    await store.open();
    const error = await store.readAll(50, 1).catch((thrown: SvcError) => thrown);
    assert.is((error as SvcError).code, 'store_corrupt');
    assert.match((error as SvcError).message, 'The event 50');
    assert.is((await store.readAll(51, 1)).length, 1);
    await store.close();
  }),
);

test(
  'missing events, and rows of runs that do not match, are found',
  placed(async (place) => {
    await filled(place, 1500);
    const other = new Database(place.database);
    other.exec(
      `delete from events where seq = 100; insert into runs values ('run_x', 1, null, 0, null, 's', 'p', 5, '{}'); pragma wal_checkpoint`,
    );
    other.close();
    const store = place.store();
    await store.open();
    assert.equal((await store.verify()).problems, [
      'After the event 99 of the log comes the event 101: some are missing.',
      'Version 101 of s does not follow the one before it.',
      'The record of the run run_x does not belong to an event of it.',
    ]);
    await store.close();
    const again = new Database(place.database);
    again.exec('delete from events where seq = 1450');
    again.close();
    assert.match(
      (await refusal(place)).message,
      'After the event 1449 of the log comes the event 1451',
    );
  }),
);

test(
  'no changed bit in the file gives a wrong event unnoticed',
  placed(async (place) => {
    await filled(place, 1200);
    const options = { database: place.database, highWater: place.highWater, limits: SMALL_RESERVE };
    const whole = readFileSync(place.database);
    const mark = readFileSync(place.highWater);
    const log = new EventLog(options);
    const truth = JSON.stringify(log.readAll(1, 2000));
    log.close();
    const found: Record<string, number> = {};
    for (let time = 0; time < 80; time += 1) {
      const at = 100 + ((time * 2654435761) % (whole.length - 100));
      rmSync(`${place.database}-wal`, { force: true });
      writeFileSync(place.database, whole);
      writeFileSync(place.highWater, mark);
      flip(place.database, at);
      const outcome = await look(options, truth);
      assert.is.not(outcome, 'wrong', `byte ${at}`);
      found[outcome] = (found[outcome] ?? 0) + 1;
    }
    assert.ok((found.refused ?? 0) + (found.reported ?? 0) > 25, JSON.stringify(found));
  }),
);

/**
 * What happens to a changed file: refused at the open, reported by the check, or unchanged for
 * readers.
 */
async function look(
  options: ConstructorParameters<typeof EventLog>[0],
  truth: string,
): Promise<'refused' | 'reported' | 'whole' | 'wrong'> {
  let log: EventLog;
  try {
    log = new EventLog(options);
  } catch (error) {
    assert.ok(
      ['store_corrupt', 'store_tail_lost', 'store_foreign', 'store_failed'].includes(
        (error as SvcError).code,
      ),
      String(error),
    );
    return 'refused';
  }
  try {
    const { ok } = await log.verify();
    if (!ok) return 'reported';
    const events: EventRow[] = log.readAll(1, 2000);
    return JSON.stringify(events) === truth ? 'whole' : 'wrong';
  } finally {
    log.close();
  }
}

const listing = (folder: string) =>
  readdirSync(folder).map((name) => [name, statSync(`${folder}/${name}`).size]);

test(
  'a file that is not our event log is refused, and not a byte of it is changed',
  placed(async (place) => {
    await filled(place, 3);
    rmSync(place.highWater);
    const ours = readFileSync(place.database);
    const patched = (at: number, value: number) => {
      const bytes = Buffer.from(ours);
      bytes.writeUInt32BE(value, at);
      return bytes;
    };
    const files: [content: Buffer, message: string][] = [
      [Buffer.from('hello'), 'is not a database'],
      [Buffer.alloc(100_000, 7), 'is not a database'],
      [patched(68, 0), 'of another program'],
      [patched(68, 0xffffffff), 'of another program'],
      [patched(60, LOG_FORMAT + 1), 'newer version'],
    ];
    for (const [content, message] of files) {
      writeFileSync(place.database, content);
      const before = listing(`${place.folder}/data`);
      const error = await refusal(place);
      assert.is(error.code, 'store_foreign');
      assert.match(error.message, message);
      assert.ok(readFileSync(place.database).equals(content));
      assert.equal(listing(`${place.folder}/data`), before);
    }
  }),
);

test(
  'the open database of another program is not touched',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.close();
    rmSync(place.database);
    const other = new Database(place.database);
    other.pragma('journal_mode = wal');
    other.exec('create table theirs (a); insert into theirs values (1)');
    assert.is((await refusal(place)).code, 'store_foreign');
    other.exec('insert into theirs values (2)');
    assert.is(other.prepare('select count(*) from theirs').pluck().get(), 2);
    other.close();
  }),
);

test.run();
