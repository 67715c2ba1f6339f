import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../src/home/paths.ts';

test('a build without the packages says what to do, and leaves dist as it is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-build-'));
  try {
    mkdirSync(join(folder, 'dist'));
    writeFileSync(join(folder, 'dist', 'kept'), '');
    cpSync(join(packageRoot(), 'tools', 'build.mjs'), join(folder, 'build.mjs'));
    const { status, stdout, stderr } = spawnSync(process.execPath, ['build.mjs'], {
      cwd: folder,
      encoding: 'utf8',
    });
    assert.equal(
      [status, stdout, stderr],
      [1, '', 'The packages of this checkout are missing. Run first: npm install\n'],
    );
    assert.ok(existsSync(join(folder, 'dist', 'kept')));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const built = (file: string) =>
  import(pathToFileURL(join(packageRoot(), 'dist/src/providers/local/engine', file)).href);

test('the library of the engine in one file has all names of its package', async () => {
  const [one, whole] = [await built('library.js'), await import('node-llama-cpp')];
  assert.equal(Object.keys(one).sort(), Object.keys(whole).sort());
  assert.is(await one.getModuleVersion(), await whole.getModuleVersion());
});

test('a build of llama.cpp is still tested in another process', async () => {
  const { testBindingBinary } = await built('testBindingBinary.js');
  assert.is(await testBindingBinary('/there/is/none.node', undefined, false, 30_000), false);
});

test.run();
