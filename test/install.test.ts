import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../src/home/paths.ts';

/**
 * Installation works on a machine without a compiler. See
 * docs/decisions/0013-installing-compiles-nothing.md.
 */
const read = (file: string) => readFileSync(join(packageRoot(), file), 'utf8');
interface Entry {
  cpu?: string[];
  gypfile?: boolean;
  hasInstallScript?: boolean;
  integrity?: string;
  link?: boolean;
  optional?: boolean;
  optionalDependencies?: Record<string, string>;
  resolved?: string;
  version?: string;
}
const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, Entry> };
const manifest = JSON.parse(read('package.json')) as {
  allowScripts: Record<string, boolean>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
};

test('installing the database driver compiles nothing', () => {
  assert.is(lock.packages['node_modules/better-sqlite3']?.gypfile, false);
  assert.is(manifest.allowScripts['better-sqlite3'], false);
});

test('the lock file has the builds of every platform', () => {
  for (const entry of Object.values(lock.packages)) {
    for (const name of Object.keys(entry.optionalDependencies ?? {}))
      assert.ok(
        Object.keys(lock.packages).some((path) => path.endsWith(`node_modules/${name}`)),
        name,
      );
  }
});

test('builds of the engine for graphics cards are not installed by themselves', () => {
  const builds = Object.entries(lock.packages).filter(([path]) =>
    /@node-llama-cpp\/.*(cuda|vulkan)/.test(path),
  );
  assert.ok(builds.length > 0);
  for (const [path, { cpu }] of builds) assert.equal(cpu, ['gpu'], path);
});

test('the package brings the engine for processors, of the version of its library', () => {
  const builds = Object.entries(manifest.optionalDependencies);
  assert.ok(builds.some(([name]) => name === '@node-llama-cpp/linux-x64'));
  const version = manifest.devDependencies['node-llama-cpp'];
  for (const [name, its] of builds) {
    assert.not.match(name, /cuda|vulkan/);
    assert.is(its, version, name);
  }
  assert.is(manifest.dependencies['node-llama-cpp'], undefined);
});

test('the lock file holds no download addresses', () => {
  const addresses = Object.values(lock.packages).filter((entry) =>
    /^https?:/.test(entry.resolved ?? ''),
  );
  assert.equal(addresses, []);
});

/**
 * Builds for other platforms without a digest in the registry that made the lock file. `npm run
 * lock` adds them where the registry has them; remove the line here then.
 */
const WITHOUT_DIGEST = [
  ...[
    'linux-riscv64',
    'mac-arm64-metal',
    'mac-x64',
    'win-arm64',
    'win-x64',
    'win-x64-cuda',
    'win-x64-cuda-ext',
    'win-x64-vulkan',
  ].map((build) => `@node-llama-cpp/${build}`),
];

test('the lock file has a digest of each package except the named builds', () => {
  const packages = Object.entries(lock.packages).filter(
    ([path, { link }]) => path !== '' && link !== true,
  );
  assert.ok(packages.length > 100);
  const without = packages.filter(
    ([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''),
  );
  assert.equal(
    without.map(([path]) => path.replace('node_modules/', '')).sort(),
    WITHOUT_DIGEST,
    'npm run lock adds digests to package-lock.json',
  );
  for (const [path, { optional }] of without) assert.is(optional, true, path);
});

test('allowScripts names exactly the packages with an install script', () => {
  const scripted = Object.entries(lock.packages).filter(
    ([, { hasInstallScript }]) => hasInstallScript === true,
  );
  const allowed = Object.entries(manifest.allowScripts).filter(([, isAllowed]) => isAllowed);
  assert.equal(
    scripted.map(([path]) => path.replace('node_modules/', '')).sort(),
    allowed.map(([name]) => name).sort(),
    'edit allowScripts in package.json',
  );
});

test('every dependency is pinned to its locked version', () => {
  for (const [name, version] of Object.entries({
    ...manifest.dependencies,
    ...manifest.devDependencies,
    ...manifest.optionalDependencies,
  })) {
    assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, name);
    assert.is(lock.packages[`node_modules/${name}`]?.version, version, name);
  }
});

test.run();
