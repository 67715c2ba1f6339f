import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { codeOf, makePlace, type Place, series } from './samples.ts';

type SmallDisk = Place & { reserve: string; unmount(): void };

const RESERVE_BYTES = 1024 * 1024;
const MIB = 1024 * 1024;

/** A place on a disk of 14 MB, where mounting is permitted. */
function mountSmall(): SmallDisk | null {
  const folder = mkdtempSync(join(tmpdir(), 'svc-full-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=14m', 'tmpfs', folder]);
  if (status !== 0) {
    rmSync(folder, { recursive: true });
    return null;
  }
  const place = makePlace(folder);
  return {
    ...place,
    store: () => place.store({ reserve_bytes: RESERVE_BYTES }),
    reserve: `${folder}/data/events.reserve`,
    unmount: () => {
      // Lazily, since a test that failed may have left its store open.
      spawnSync('umount', ['-l', folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Fills the disk up to this space. */
function fill(folder: string, left: number): void {
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(`${folder}/ballast`, Buffer.alloc(Math.max(0, bavail * bsize - left)));
}

const sample = mountSmall();
sample?.unmount();
if (sample === null) console.log('skipped: a full disk: mounting is not permitted here');

function onSmallDisk(event: string, work: (place: SmallDisk) => Promise<void>): void {
  (sample === null ? test.skip : test)(event, async () => {
    const place = mountSmall() as SmallDisk;
    try {
      await work(place);
    } finally {
      place.unmount();
    }
  });
}

const data = { text: 'x'.repeat(2000) };
const twenty = (first: number) => series(first, 20, 's', { data });

/** Appends until a commit returns this. Returns the last acknowledged event. */
async function appendUntil(
  store: EventStore,
  from: number,
  until: (answer: boolean | string | null) => boolean,
): Promise<number> {
  for (let seq = from; ; seq += 20) {
    let full: boolean | null = null;
    const code = await codeOf(store.append(twenty(seq + 1)).then((answer) => (full = answer.full)));
    if (until(code ?? full)) return code === null ? seq + 20 : seq;
    if (code !== null) throw new Error(code);
  }
}

onSmallDisk(
  'what still must be recorded when the disk is full takes the space of the reserve, and says so until it is back',
  async (place) => {
    const store = place.store();
    assert.is((await store.open()).full, false);
    const { size, blocks, mode } = statSync(place.reserve);
    assert.equal([size, blocks * 512 >= size, mode & 0o777], [RESERVE_BYTES, true, 0o600]);
    const seq = await appendUntil(store, 0, (answer) => answer === true);
    assert.not.ok(existsSync(place.reserve));
    assert.ok(seq > 100);
    for (let more = 0; more < 200; more += 20)
      assert.ok((await store.append(twenty(seq + more + 1))).full);
    assert.is(await store.reserve(), false, 'there is no space for it');
    spawnSync('mount', ['-o', 'remount,size=32m', place.folder]);
    assert.ok((await store.append(twenty(seq + 201))).full, 'it is not put back by itself');
    assert.is(await store.reserve(), true);
    assert.is(statSync(place.reserve).size, RESERVE_BYTES);
    assert.not((await store.append(twenty(seq + 221))).full);
    assert.equal(await store.verify(), { ok: true, events: seq + 240, problems: [] });
    await store.close();
  },
);

onSmallDisk(
  'what else must be written can have the space of the reserve: the next commit says that it is gone',
  async (place) => {
    const store = place.store();
    await store.open();
    assert.is(await store.spendReserve(), true);
    assert.not.ok(existsSync(place.reserve));
    assert.is(await store.spendReserve(), false, 'it is given once');
    assert.ok((await store.append(twenty(1))).full);
    assert.is(await store.reserve(), true);
    assert.not((await store.append(twenty(21))).full);
    await store.close();
  },
);

onSmallDisk(
  'when the reserve is used up too, commits are refused, nothing is lost, and the same commit is taken once there is space',
  async (place) => {
    const store = place.store();
    await store.open();
    const acked = await appendUntil(store, 0, (answer) => answer === 'store_full');
    assert.not.ok(existsSync(place.reserve));
    assert.is(
      await codeOf(store.append(twenty(acked + 1))),
      'store_full',
      'as often as it is tried',
    );
    assert.equal(
      (await store.readAll(acked, 100)).map((one) => one.seq),
      [acked],
      'reads go on',
    );
    spawnSync('mount', ['-o', 'remount,size=32m', place.folder]);
    await store.append(twenty(acked + 1));
    assert.equal(await store.verify(), { ok: true, events: acked + 20, problems: [] });
    await store.close();
    const again = place.store();
    const { last_seq, full } = await again.open();
    assert.equal([last_seq, full], [acked + 20, false]);
    await again.close();
  },
);

onSmallDisk(
  'a log that filled the disk, at each place of the way to its next checkpoint, is found again as it was acknowledged',
  async (place) => {
    for (let commits = 1; commits <= 100; commits += 11) {
      const store = place.store();
      await store.open();
      for (let seq = 0; seq < commits * 20; seq += 20) await store.append(twenty(seq + 1));
      fill(place.folder, 20_000);
      const acked = await appendUntil(store, commits * 20, (answer) => answer === 'store_full');
      // A checkpoint is due at the close, and finds no space either.
      await store.close();
      const again = place.store();
      const { last_seq, full } = await again.open();
      assert.equal([last_seq, full], [acked, true], `${commits} commits`);
      assert.equal(await again.verify(), { ok: true, events: acked, problems: [] });
      rmSync(`${place.folder}/ballast`);
      assert.equal(
        [await again.reserve(), await again.append(twenty(acked + 1))],
        [true, { full: false, first_seq: acked + 1 }],
      );
      await again.close();
      rmSync(`${place.folder}/data`, { recursive: true });
    }
  },
);

onSmallDisk(
  'a disk that is full at the very first start says so, and the start succeeds once there is space',
  async (place) => {
    for (const left of [0, 4096, 20_000, 40_000]) {
      fill(place.folder, left);
      const store = place.store();
      assert.is(await codeOf(store.open()), 'store_full', `${left} bytes left`);
      rmSync(`${place.folder}/ballast`);
      assert.is((await store.open()).full, false);
      await store.append(series(1, 1));
      await store.close();
      rmSync(`${place.folder}/data`, { recursive: true });
    }
  },
);

onSmallDisk('a first start without space for the reserve succeeds, and says so', async (place) => {
  fill(place.folder, MIB);
  const store = place.store();
  assert.is((await store.open()).full, true);
  assert.ok((await store.append(series(1, 1))).full);
  rmSync(`${place.folder}/ballast`);
  assert.is(await store.reserve(), true);
  await store.close();
});

onSmallDisk('a reserve that was cut short or has holes is made anew', async (place) => {
  for (const harm of [
    'truncate -s 5000',
    `truncate -s 0 ${place.reserve} && truncate -s ${RESERVE_BYTES}`,
    'rm',
  ]) {
    const store = place.store();
    await store.open();
    await store.close();
    spawnSync('sh', ['-c', `${harm} ${place.reserve}`]);
    const again = place.store();
    assert.is((await again.open()).full, false);
    const { size, blocks } = statSync(place.reserve);
    assert.ok(size === RESERVE_BYTES && blocks * 512 >= size, harm);
    await again.close();
  }
});

test.run();
