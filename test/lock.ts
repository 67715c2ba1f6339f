import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

/**
 * Writes the digests that the lock file lacks, from the registry: `npm run lock`.
 *
 * 1. npm omits the digests of builds for other platforms that it did not find when it resolved.
 *    Prints what the registry does not have, and then exits 1.
 * 2. Builds of the engine for graphics cards get a processor that no machine has: npm does not
 *    install them by itself then.
 * 3. The driver of the database is not compiled: npm forgets that when it writes the file.
 */
const FILE = 'package-lock.json';

interface Entry {
  version?: string;
  integrity?: string;
  link?: boolean;
  cpu?: string[];
  gypfile?: boolean;
}

/** 600 MB on Linux, of no use without a card; `svc engine install` adds one. */
const FOR_CARDS = /^node_modules\/@node-llama-cpp\/.*-(cuda|cuda-ext|vulkan)$/;
const NO_MACHINE = ['gpu'];

const lock = JSON.parse(readFileSync(FILE, 'utf8')) as { packages: Record<string, Entry> };

async function digestOf(name: string, version: string): Promise<string | null> {
  const { stdout } = await promisify(execFile)('npm', [
    'view',
    `${name}@${version}`,
    'dist.integrity',
  ]).catch(() => ({ stdout: '' }));
  return stdout.startsWith('sha512-') ? stdout.trim() : null;
}

for (const [path, { version = '', ...rest }] of Object.entries(lock.packages)) {
  if (path === '' || rest.link || rest.integrity) continue;
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const integrity = await digestOf(name, version);
  if (integrity !== null) lock.packages[path] = { version, integrity, ...rest };
  else {
    console.log(`${name}@${version}: the registry has no digest for it`);
    process.exitCode = 1;
  }
}
for (const [path, entry] of Object.entries(lock.packages))
  if (FOR_CARDS.test(path)) entry.cpu = NO_MACHINE;
const driver = lock.packages['node_modules/better-sqlite3'];
if (driver !== undefined) driver.gypfile = false;
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`);
