import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Begin, tryLock } from '../../src/home/file-lock.ts';
import { platform } from '../../src/home/platform.ts';
import { failure } from '../helpers/failure.ts';

const test = suite<{ folder: string }>('the lock of a file');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-lock-'));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

test('one holds it, and the next one has it after the release', async ({ folder }) => {
  const file = join(folder, 'lock');
  const release = await tryLock(file);
  assert.is(await tryLock(file), null);
  assert.is(await tryLock(file), null, 'a look does not release it');
  release?.();
  const next = await tryLock(file);
  assert.type(next, 'function');
  next?.();
});

test('only the user may read it, also an older one', async ({ folder }) => {
  if (platform.others === 0) return;
  const before = join(folder, 'before');
  writeFileSync(before, '');
  chmodSync(before, 0o644);
  for (const file of [before, join(folder, 'new')]) {
    (await tryLock(file))?.();
    assert.is(statSync(file).mode & 0o777, 0o600, file);
  }
});

test('a file system without locks is named at once', async ({ folder }) => {
  for (const code of ['SQLITE_BUSY', 'SQLITE_IOERR_LOCK']) {
    const refuse: Begin = () => Promise.reject(Object.assign(new Error(code), { code }));
    const error = await failure(tryLock(join(folder, 'lock'), refuse));
    assert.is(error.code, 'home_unusable');
    assert.is(error.message, `The file system of ${folder} has no file locks.`);
    assert.equal(readdirSync(folder), ['lock'], 'the fresh file is gone');
  }
});

test('a lock that another process holds is no file system without locks', async ({ folder }) => {
  const file = join(folder, 'lock');
  const heldElsewhere: Begin = (each) =>
    each === file
      ? Promise.reject(Object.assign(new Error('busy'), { code: 'SQLITE_BUSY' }))
      : Promise.resolve(() => {});
  assert.is(await tryLock(file, heldElsewhere), null);
  assert.equal(readdirSync(folder), ['lock']);
});

test.run();
