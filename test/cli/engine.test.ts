import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { run as install } from '../../src/cli/upkeep/engine/install.ts';
import { run as remove } from '../../src/cli/upkeep/engine/remove.ts';
import type { SvcError } from '../../src/errors.ts';
import { buildsFolder, buildsFor, packageFolder } from '../../src/home/engine-builds.ts';
import { findPaths, type Paths } from '../../src/home/paths.ts';

const engine = suite<{ root: string; paths: Paths; builds: string }>('svc engine');
const { PATH } = process.env;
engine.before.each((context) => {
  context.root = mkdtempSync(join(tmpdir(), 'svc-builds-'));
  context.paths = findPaths({ SVC_HOME: join(context.root, 'home') });
  context.builds = buildsFolder(context.paths);
});
engine.after.each(({ root }) => {
  process.env.PATH = PATH;
  rmSync(root, { recursive: true, force: true });
});

// A command keeps its listener until its process ends. Here other test files come after it.
engine.after(() => void process.removeAllListeners('SIGHUP'));

const failure = (work: Promise<number>): Promise<SvcError> =>
  work.then(
    () => assert.unreachable('it does not fail') as never,
    (error) => error,
  );
const [name] = Object.keys(buildsFor());

/** Only where there are builds: this test runs on every system. */
if (name === undefined) console.log('skipped: no builds of the engine for this system');
const whereBuilds = name === undefined ? engine.skip : engine;
const order = (paths: Paths, archive: string[] = []) =>
  install({ name: '', args: [name ?? ''], flags: { archive }, paths, json: true });

whereBuilds('a package with another digest is not installed', async ({ root, paths, builds }) => {
  const bin = join(root, 'bin');
  mkdirSync(bin);
  process.env.PATH = `${bin}:${PATH}`;
  const [part] = Object.keys(Object.values(buildsFor())[0]?.packages ?? {});
  // npm is called in the folder of the draft.
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\necho other > node-llama-cpp-${part}-3.22.1.tgz\n`);
  chmodSync(join(bin, 'npm'), 0o755);
  const error = await failure(order(paths));
  assert.is(error.code, 'pull_failed');
  assert.not(error.retryable);
  assert.match(error.message, 'is not the package that this version of svc knows');
  assert.equal(readdirSync(builds), []);
});

whereBuilds(
  'without npm and the archive it says what is needed',
  async ({ root, paths, builds }) => {
    process.env.PATH = root;
    const other = join(root, 'other.tgz');
    writeFileSync(other, 'x');
    const { code, message, hint } = await failure(order(paths, [other]));
    assert.is(code, 'pull_failed');
    assert.match(message, 'npm is not installed');
    assert.match(hint, 'npm pack');
    assert.equal(readdirSync(builds), []);
    assert.match((await failure(order(paths, [join(root, 'none')]))).message, 'cannot be read');
  },
);

whereBuilds('a build is removed with those that do not work without it', async (context) => {
  const { paths, builds } = context;
  const parts = Object.keys(buildsFor()['cuda-12']?.packages ?? {});
  for (const part of [...parts, 'linux-x64-vulkan'])
    mkdirSync(packageFolder(builds, part), { recursive: true });
  const gone = (args: string[]) => remove({ name: '', args, flags: {}, paths, json: true });
  assert.is(await gone(['cuda']), 0);
  assert.equal(readdirSync(packageFolder(builds, '')), ['linux-x64-vulkan']);
  assert.match((await failure(gone(['cuda']))).message, 'is not installed');
  mkdirSync(packageFolder(buildsFolder(paths, '1.0.0'), 'linux-x64-vulkan'), { recursive: true });
  assert.is(await gone(['1.0.0']), 0);
  assert.equal(readdirSync(join(builds, '..')), ['3.22.1']);
});

engine('an unknown build is refused with the names of those there are', async ({ paths }) => {
  const order = { name: '', args: ['../..'], flags: {}, paths, json: true };
  assert.match((await failure(install(order))).message, 'There is no build "../.."');
  assert.is((await failure(remove(order))).code, 'usage');
});

engine.run();
