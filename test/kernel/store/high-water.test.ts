import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { HighWater, readMark } from '../../../src/kernel/store/files/high-water.ts';
import { inspectStore } from '../../../src/kernel/store/inspect/inspect.ts';
import { codeOf, filled, makePlace, type Place, placed, series } from './samples.ts';

const LOG_ID = 'ab'.repeat(16);
const mark = (seq: number) => ({ seq, hash: seq.toString(16).padStart(64, '0'), log_id: LOG_ID });

function written(seqs: number[]): { place: Place; file: string } {
  const place = makePlace();
  const file = `${place.folder}/mark`;
  const highWater = new HighWater(file, LOG_ID);
  for (const seq of seqs) highWater.write(mark(seq));
  highWater.close();
  return { place, file };
}

test('the last mark is read', () => {
  for (const count of [1, 2, 3, 500]) {
    const { place, file } = written(Array.from({ length: count }, (_, index) => index + 1));
    assert.equal(readMark(file), mark(count));
    assert.is(statSync(file).mode & 0o777, 0o600);
    place.remove();
  }
});

test('the older slot is written next, also after another open', () => {
  const { place, file } = written([1, 2, 3]);
  for (const seq of [4, 5]) {
    const again = new HighWater(file, LOG_ID);
    again.write(mark(seq));
    again.close();
    truncateTorn(file, seq);
    assert.equal(readMark(file), mark(seq));
  }
  place.remove();
});

/** Both slots are whole: the mark just written and the one before. */
function truncateTorn(file: string, seq: number): void {
  const text = readFileSync(file, 'latin1');
  assert.ok(text.includes(` ${seq} `) && text.includes(` ${seq - 1} `));
}

test('a write that is cut anywhere leaves the previous mark', () => {
  const { place, file } = written([1, 2, 3]);
  const before = readFileSync(file);
  const next = new HighWater(file, LOG_ID);
  next.write(mark(4));
  next.close();
  const after = readFileSync(file);
  for (let cut = 0; cut <= 1024; cut += 1) {
    writeFileSync(file, Buffer.concat([after.subarray(0, cut), before.subarray(cut)]));
    const found = readMark(file)?.seq;
    assert.ok(found === 3 || found === 4, `cut at ${cut}: ${found}`);
  }
  place.remove();
});

test('no changed byte gives another mark', () => {
  const { place, file } = written([10, 11]);
  const whole = readFileSync(file);
  for (let at = 0; at < whole.length; at += 1) {
    for (const bit of [1, 16]) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ bit;
      writeFileSync(file, changed);
      const found = readMark(file);
      assert.ok(
        found === null || JSON.stringify(found) === JSON.stringify(mark(found.seq)),
        `byte ${at}`,
      );
      assert.ok(found?.seq === 10 || found?.seq === 11, `byte ${at}: one slot is whole`);
    }
  }
  place.remove();
});

test('a file that is missing, empty, cut or foreign has no mark', () => {
  const { place, file } = written([1]);
  truncateSync(file, 100);
  assert.is(readMark(file), null);
  for (const content of ['', 'hello', '\0'.repeat(2000), 'x'.repeat(100_000)]) {
    writeFileSync(file, content);
    assert.is(readMark(file), null);
  }
  rmSync(file);
  assert.is(readMark(file), null);
  place.remove();
});

test(
  'a log does not open without its mark, until the user accepts the loss',
  placed(async (place) => {
    await filled(place, 10);
    const whole = readFileSync(place.highWater);
    const spoil: (() => void)[] = [
      () => rmSync(place.highWater),
      () => writeFileSync(place.highWater, ''),
      () => writeFileSync(place.highWater, 'nonsense'),
      () => writeFileSync(place.highWater, Buffer.alloc(1024, 170)),
      () => truncateSync(place.highWater, 150),
    ];
    for (const harm of spoil) {
      writeFileSync(place.highWater, whole);
      harm();
      const before = readFileSync(place.database);
      const error = await place
        .store()
        .open()
        .catch((thrown: SvcError) => thrown);
      assert.is((error as SvcError).code, 'store_tail_lost');
      assert.match(
        (error as SvcError).message,
        'The high-water mark of the event log is gone, or cannot be read',
      );
      assert.match((error as SvcError).hint, `echo accept > "${place.highWater}"`);
      assert.ok(readFileSync(place.database).equals(before));
      writeFileSync(place.highWater, 'accept\r\n');
      const store = place.store();
      assert.is((await store.open()).last_seq, 10);
      assert.ok((await store.verify()).ok);
      await store.close();
      assert.is(readMark(place.highWater)?.seq, 10);
    }
  }),
);

test(
  'a mark that is behind, torn in one slot, or followed by other bytes is accepted and corrected',
  placed(async (place) => {
    await filled(place, 10);
    const older = readFileSync(place.highWater);
    const store = place.store();
    await store.open();
    await store.append(series(11, 5));
    await store.close();
    const spoil: (() => void)[] = [
      () => writeFileSync(place.highWater, older),
      () => appendFileSync(place.highWater, 'more'),
      () =>
        writeFileSync(
          place.highWater,
          Buffer.concat([Buffer.alloc(512, 7), readFileSync(place.highWater).subarray(512)]),
        ),
    ];
    for (const harm of spoil) {
      harm();
      assert.is((await store.open()).last_seq, 15);
      assert.ok((await store.verify()).ok);
      await store.close();
      assert.is(readMark(place.highWater)?.seq, 15);
    }
  }),
);

test(
  'the mark of another log is refused, even at the same position',
  placed(async (place) => {
    await filled(place, 10);
    const other = makePlace();
    await filled(other, 10);
    writeFileSync(place.highWater, readFileSync(other.highWater));
    other.remove();
    const error = await place
      .store()
      .open()
      .catch((thrown: SvcError) => thrown);
    assert.match((error as SvcError).message, 'The high-water mark belongs to another event log');
  }),
);

test(
  'a backup of log and mark, and a log whose first start was cut off, open',
  placed(async (place) => {
    await filled(place, 10);
    cpSync(`${place.folder}/data`, `${place.folder}/backup`, { recursive: true });
    const store = place.store();
    await store.open();
    await store.append(series(11, 5));
    await store.close();
    rmSync(`${place.folder}/data`, { recursive: true });
    cpSync(`${place.folder}/backup`, `${place.folder}/data`, { recursive: true });
    assert.is((await store.open()).last_seq, 10);
    await store.close();
    rmSync(place.database);
    writeFileSync(place.highWater, '');
    assert.is((await store.open()).last_seq, 0, 'the mark of a first start may be empty');
    await store.close();
  }),
);

test(
  'an empty log is not created beside the WAL of a lost log',
  placed(async (place) => {
    mkdirSync(dirname(place.database), { recursive: true });
    writeFileSync(`${place.database}-wal`, 'what a killed daemon left');
    const error = await place
      .store()
      .open()
      .catch((thrown: SvcError) => thrown);
    assert.is((error as SvcError).code, 'store_tail_lost');
    assert.match((error as SvcError).message, 'is gone, and its WAL is still there');
    assert.is(readFileSync(`${place.database}-wal`, 'utf8'), 'what a killed daemon left');
    const found = await inspectStore(place);
    assert.is(
      found.state === 'unreadable' && found.error.code,
      'store_tail_lost',
      'the doctor names it too',
    );
    rmSync(`${place.database}-wal`);
    const store = place.store();
    assert.is((await store.open()).last_seq, 0);
    await store.close();
  }),
);

test(
  'the mark follows each commit, without a close',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    for (let seq = 1; seq <= 5; seq += 1) {
      await store.append(series(seq, 1));
      assert.is(readMark(place.highWater)?.seq, seq);
    }
    assert.is(await codeOf(store.append(series(7, 1))), 'store_conflict');
    assert.is(readMark(place.highWater)?.seq, 5);
    rmSync(place.highWater);
    assert.match(
      (await store.verify()).problems.join(),
      'The high-water mark of the event log is gone',
    );
    await store.close();
  }),
);

test.run();
