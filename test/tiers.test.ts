import { globSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { changedFirst, filesOf, isShared, SLOWEST, SMALL_FILES } from './tiers.ts';

const files = globSync('test/**/*.test.ts')
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => !file.startsWith('test/fixtures/'));

test('the tier "all" has every file, the slowest first', () => {
  const all = filesOf('all', files);
  assert.equal(all.toSorted(), files.toSorted());
  assert.ok(all[0]?.startsWith(SLOWEST[0] ?? ''));
  const ranks = all.map((file) => SLOWEST.findIndex((prefix) => file.startsWith(prefix)));
  const listed = ranks.filter((rank) => rank >= 0);
  assert.equal(
    ranks.slice(0, listed.length),
    listed.toSorted((a, b) => a - b),
  );
});

test('the tier "quick" has no file that starts a process or is slow', () => {
  const quick = filesOf('quick', files);
  assert.ok(quick.length > files.length * 0.4, `${quick.length} of ${files.length}`);
  assert.ok(quick.includes('test/kernel/kernel.test.ts'));
  for (const file of ['test/cli/run.test.ts', 'test/run.test.ts', 'test/e2e/run.test.ts'])
    assert.ok(files.includes(file) && !quick.includes(file), file);
  for (const prefix of SLOWEST)
    assert.not.ok(
      quick.some((file) => file.startsWith(prefix) && !SMALL_FILES.has(file)),
      prefix,
    );
  for (const file of SMALL_FILES) assert.ok(quick.includes(file), file);
});

test('a file shares its process unless it starts one, or loads the library of the engine', () => {
  assert.ok(isShared('test/kernel/store/sqlite.test.ts'));
  for (const file of ['test/cli/run.test.ts', 'test/providers/mini/export.test.ts'])
    assert.ok(files.includes(file) && !isShared(file), file);
});

test('every line of the list of slow files is about a file', () => {
  for (const prefix of SLOWEST)
    assert.ok(
      files.some((file) => file.startsWith(prefix)),
      prefix,
    );
});

test('files that load a changed one go first', () => {
  const order = ['test/release.test.ts', 'test/async/timers.test.ts', 'test/json.test.ts'];
  assert.equal(changedFirst(order, ['src/json.ts']).at(0), 'test/json.test.ts');
  assert.equal(changedFirst(order, ['src/async/timers.ts']).at(0), 'test/async/timers.test.ts');
  assert.equal(changedFirst(order, ['docs/cli.md', 'package.json']), order);
  assert.equal(changedFirst(order, []), order);
});

test.run();
