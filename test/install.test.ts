import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../src/paths.ts';

/** What makes an installation work on a machine without a compiler. See docs/decisions/2026-11-21-nothing-is-compiled.md. */
const read = (file: string) => readFileSync(join(packageRoot(), file), 'utf8');
const lock = JSON.parse(read('package-lock.json')) as {
  packages: Record<string, { gypfile?: boolean; resolved?: string; version?: string; optionalDependencies?: Record<string, string> }>;
};
const manifest = JSON.parse(read('package.json')) as {
  allowScripts: Record<string, boolean>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};

test('nothing is compiled when the database driver is installed', () => {
  assert.is(lock.packages['node_modules/better-sqlite3']?.gypfile, false);
  assert.is(manifest.allowScripts['better-sqlite3'], false);
});

test('the lock file knows the builds of every platform, not only of the one it was made on', () => {
  for (const entry of Object.values(lock.packages)) {
    for (const name of Object.keys(entry.optionalDependencies ?? {}))
      assert.ok(
        Object.keys(lock.packages).some((path) => path.endsWith(`node_modules/${name}`)),
        name,
      );
  }
});

test('the lock file holds no download addresses', () => {
  const addresses = Object.values(lock.packages).filter((entry) => /^https?:/.test(entry.resolved ?? ''));
  assert.equal(addresses, []);
});

test('every dependency is pinned to one version, the one that is locked', () => {
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, name);
    assert.is(lock.packages[`node_modules/${name}`]?.version, version, name);
  }
});

test.run();
