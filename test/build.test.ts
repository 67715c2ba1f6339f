import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

test.run();
