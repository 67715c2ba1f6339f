import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { codeOf, makePlace, type Place, series } from './samples.ts';

/** A place on a disk of 6 MB, where mounting is permitted. */
function mountSmall(): (Place & { unmount(): void }) | null {
  const folder = mkdtempSync(join(tmpdir(), 'svc-full-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=6m', 'tmpfs', folder]);
  if (status !== 0) {
    rmSync(folder, { recursive: true });
    return null;
  }
  return {
    ...makePlace(folder),
    unmount: () => {
      // Lazily, since a test that failed may have left its store open.
      spawnSync('umount', ['-l', folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Leaves no more space than this. */
function fill(folder: string, left: number): void {
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(`${folder}/ballast`, Buffer.alloc(Math.max(0, bavail * bsize - left)));
}

const sample = mountSmall();
sample?.unmount();
const tried = sample === null ? test.skip : test;
if (sample === null) console.log('a full disk cannot be tried: mounting is not permitted here');

tried('a full disk refuses the commit, keeps everything before it, and takes the same commit once there is space', async () => {
  const place = mountSmall() as Place & { unmount(): void };
  try {
    const store = place.store();
    await store.open();
    const data = { text: 'x'.repeat(2000) };
    let seq = 0;
    let code: string | null = null;
    for (; code === null; seq += 20) code = await codeOf(store.append(series(seq + 1, 20, 's', { data })));
    const acked = seq - 20;
    assert.is(code, 'store_full');
    assert.ok(acked > 100);
    assert.is(await codeOf(store.append(series(acked + 1, 20, 's', { data }))), 'store_full', 'as often as it is tried');
    assert.equal(
      (await store.readAll(acked, 100)).map((one) => one.seq),
      [acked],
      'reads go on',
    );

    spawnSync('mount', ['-o', 'remount,size=24m', place.folder]);
    await store.append(series(acked + 1, 20, 's', { data }));
    assert.equal(await store.verify(), { ok: true, events: acked + 20, problems: [] });
    await store.close();
    const again = place.store();
    assert.is((await again.open()).last_seq, acked + 20);
    await again.close();
  } finally {
    place.unmount();
  }
});

tried('a disk that is full at the start says so, and the start succeeds once there is space', async () => {
  const place = mountSmall() as Place & { unmount(): void };
  try {
    for (const left of [0, 4096, 20_000, 40_000]) {
      rmSync(`${place.folder}/ballast`, { force: true });
      fill(place.folder, left);
      const store = place.store();
      const code = await codeOf(store.open());
      if (left < 40_000) assert.is(code, 'store_full', `${left} bytes left`);
      rmSync(`${place.folder}/ballast`);
      if (code !== null) await store.open();
      await store.append(series(1, 1));
      await store.close();
      rmSync(`${place.folder}/data`, { recursive: true });
    }
  } finally {
    place.unmount();
  }
});

tried('a log on a full disk can be closed and read again', async () => {
  const place = mountSmall() as Place & { unmount(): void };
  try {
    const store = place.store();
    await store.open();
    await store.append(series(1, 500));
    fill(place.folder, 0);
    await codeOf(store.append(series(501, 500, 's', { data: { text: 'x'.repeat(4000) } })));
    await store.close();
    const again = place.store();
    assert.is((await again.open()).last_seq, 500);
    assert.ok((await again.verify()).ok);
    await again.close();
  } finally {
    place.unmount();
  }
});

test.run();
