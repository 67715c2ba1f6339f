import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { writeAtomic } from '../../src/home/atomic-write.ts';

const test = suite<{ folder: string; file: string }>('writeAtomic');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-atomic-'));
  context.file = join(context.folder, 'file');
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

for (const sync of [false, true]) {
  test(`replaces the file and its mode, sync: ${sync}`, async ({ folder, file }) => {
    writeFileSync(file, 'old', { mode: 0o644 });
    await writeAtomic(file, 'new', { sync });
    assert.is(readFileSync(file, 'utf8'), 'new');
    assert.is(statSync(file).mode & 0o777, 0o600);
    assert.equal(readdirSync(folder), ['file']);
  });
}

test('sets the mode whatever the mask is', async ({ file }) => {
  const mask = process.umask(0o277);
  try {
    await writeAtomic(file, 'text', { mode: 0o640 });
  } finally {
    process.umask(mask);
  }
  assert.is(statSync(file).mode & 0o777, 0o640);
});

test('with keep, the first of many writers wins', async ({ folder, file }) => {
  const texts = Array.from({ length: 20 }, (_, index) => `writer ${index}`);
  const results: string[] = [];
  await Promise.all(
    texts.map(async (text) => {
      await writeAtomic(file, text, { keep: true });
      results.push(readFileSync(file, 'utf8'));
    }),
  );
  assert.is(new Set(results).size, 1);
  assert.ok(texts.includes(results[0] ?? ''));
  assert.equal(readdirSync(folder), ['file']);
});

test('writers at the same time leave one whole text', async ({ folder, file }) => {
  const texts = Array.from({ length: 20 }, (_, index) => String(index).repeat(50_000));
  await Promise.all(texts.map((text) => writeAtomic(file, text)));
  assert.ok(texts.includes(readFileSync(file, 'utf8')));
  assert.equal(readdirSync(folder), ['file']);
});

test('a write that fails leaves the old file and no draft', async ({ folder, file }) => {
  mkdirSync(join(file, 'inside'), { recursive: true });
  const code = await writeAtomic(file, 'new').then(
    () => null,
    (error: NodeJS.ErrnoException) => error.code,
  );
  assert.ok(code !== null);
  assert.equal(readdirSync(folder), ['file']);
  assert.ok(statSync(file).isDirectory());
});

test('a draft of a dead process is overwritten', async ({ folder, file }) => {
  writeFileSync(`${file}.new`, 'a longer draft of a dead process', { mode: 0o644 });
  await writeAtomic(file, 'new', { draft: `${file}.new` });
  assert.is(readFileSync(file, 'utf8'), 'new');
  assert.is(statSync(file).mode & 0o777, 0o600);
  assert.equal(readdirSync(folder), ['file']);
});

test.run();
