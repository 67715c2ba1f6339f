import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../../src/home/paths.ts';
import { live } from './life.ts';
import { promisedVersions } from './versions.ts';

/**
 * `npm run nodes`: the built daemon on the first and the last version of each line of Node.js that
 * `engines` promises. Words after `--` name other versions. npm installs each of them by its name,
 * one at a time, into a temporary folder. The last line is `N passed, N failed`.
 */
const INSTALL_MS = 600_000;

const execute = promisify(execFile);
const given = process.argv.slice(2);
const versions = given.length > 0 ? given : promisedVersions(engines(), await published());
let failed = 0;
for (const version of versions) {
  const outcome = await tryOn(version);
  if (outcome !== null) failed += 1;
  process.stdout.write(`${outcome === null ? 'ok  ' : 'FAIL'}  node ${version}\n`);
  if (outcome !== null) process.stdout.write(`${outcome.replace(/^/gm, '      ')}\n`);
}
process.stdout.write(`${versions.length - failed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 || versions.length === 0 ? 1 : 0;

/** What is wrong on this version; null for nothing. */
async function tryOn(version: string): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-node-'));
  try {
    const settings = { private: true, allowScripts: { node: true } };
    writeFileSync(join(folder, 'package.json'), JSON.stringify(settings));
    await npm(folder, 'install', '--no-audit', '--no-fund', `node@${version}`);
    const name = process.platform === 'win32' ? 'node.exe' : 'node';
    await live(join(folder, 'node_modules', 'node', 'bin', name), version);
    return null;
  } catch (error) {
    return (error as Error).message;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function engines(): string {
  return JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')).engines.node;
}

async function published(): Promise<string[]> {
  return JSON.parse(await npm(tmpdir(), 'view', 'node', 'versions', '--json'));
}

/** npm of the path, with no setting of the npm that runs this. */
async function npm(cwd: string, ...args: readonly string[]): Promise<string> {
  const isOwn = (name: string) => /^npm_(?!config_(registry|.*proxy|cafile))/i.test(name);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOwn(name)));
  const { stdout } = await execute('npm', [...args], {
    cwd,
    env,
    timeout: INSTALL_MS,
    maxBuffer: 16 * 1024 * 1024,
    shell: process.platform === 'win32',
  });
  return stdout;
}
