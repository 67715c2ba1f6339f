import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkBuild } from '../../../src/cli/upkeep/doctor/engine-check.ts';
import { gpuWarning } from '../../../src/contract/loaded-models.ts';
import {
  betterBuild,
  buildForCard,
  buildsFor,
  cardOf,
  ENGINE_VERSION,
  packageFolder,
} from '../../../src/home/engine-builds.ts';
import { packageRoot } from '../../../src/home/paths.ts';

const read = (file: string) => JSON.parse(readFileSync(join(packageRoot(), file), 'utf8'));

/** A machine whose files are in a folder of the test. */
const builds = suite<{ root: string }>('builds of the engine');
builds.before.each((context) => {
  context.root = mkdtempSync(join(tmpdir(), 'svc-card-'));
});
builds.after.each(({ root }) => rmSync(root, { recursive: true, force: true }));

const put = (root: string, file: string, text = '') => {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
};
const on = (root: string) => ({ root, system: 'linux-x64' });

builds('they have the version of the library, and the digests of the lock file', () => {
  assert.is(ENGINE_VERSION, read('package.json').devDependencies['node-llama-cpp']);
  const { packages } = read('package-lock.json');
  const rows = Object.values(buildsFor(on('/'))).flatMap((row) => Object.entries(row.packages));
  assert.ok(rows.length >= 3);
  for (const [name, digest] of rows) {
    const locked = packages[`node_modules/@node-llama-cpp/${name}`];
    assert.equal([locked.integrity, locked.version], [`sha512-${digest}`, ENGINE_VERSION], name);
  }
});

builds('a machine without a card, or with graphics in its processor, has none', ({ root }) => {
  assert.is(cardOf(on(root)), null);
  put(root, 'sys/class/drm/card0/device/vendor', '0x8086\n');
  put(root, 'sys/class/drm/card1/device/vendor', '0x1002\n');
  put(root, 'sys/class/drm/card1/device/mem_info_vram_total', `${512 * 2 ** 20}\n`);
  assert.is(cardOf(on(root)), null);
  assert.is(buildForCard(on(root)), null);
  assert.equal(checkBuild(root, on(root)), []);
});

builds('a card of AMD gets the build for Vulkan', ({ root }) => {
  put(root, 'sys/class/drm/card1/device/vendor', '0x1002\n');
  put(root, 'sys/class/drm/card1/device/mem_info_vram_total', `${8 * 2 ** 30}\n`);
  assert.equal(buildForCard(on(root)), { card: 'AMD', build: 'vulkan' });
});

builds('a card of NVIDIA gets the build whose library is there', ({ root }) => {
  put(root, 'proc/driver/nvidia/version', 'NVRM');
  const build = () => buildForCard(on(root))?.build;
  assert.is(build(), 'cuda', 'none is there');
  put(root, 'usr/lib64/libvulkan.so.1');
  assert.is(build(), 'vulkan');
  put(root, 'usr/local/cuda/lib64/libcudart.so.12');
  assert.is(build(), 'cuda-12');
  put(root, 'usr/lib/x86_64-linux-gnu/libcudart.so.13');
  assert.is(build(), 'cuda');
  assert.is(buildForCard({ root, system: 'linux-riscv64' }), null, 'there is no build for it');
});

builds('a card without its build is named by the doctor, and at a loaded model', ({ root }) => {
  put(root, 'proc/driver/nvidia/version', 'NVRM');
  const folder = join(root, 'home');
  const better = betterBuild(folder, on(root));
  assert.equal(better, { card: 'NVIDIA', build: 'cuda' });
  assert.equal(
    checkBuild(folder, on(root)).map(({ status, hint }) => [status, hint]),
    [['warn', 'Run: svc engine install cuda']],
  );
  const warned = gpuWarning({
    model: 'm',
    gpu: 'cpu',
    better_build: { card: 'NVIDIA', build: 'cuda' },
  });
  assert.match(warned ?? '', 'card of NVIDIA. Run: svc engine install cuda');
  mkdirSync(packageFolder(folder, 'linux-x64-cuda'), { recursive: true });
  assert.is(betterBuild(folder, on(root)), null, 'it is installed');
  assert.equal(checkBuild(folder, on(root)), []);
});

builds.run();
