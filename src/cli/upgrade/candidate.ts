import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { SvcError } from '../../errors.ts';
import { SYSTEM } from '../../home/platform.ts';
import { isAlive } from '../../home/process-alive.ts';
import { oneLine } from '../../logs/plain.ts';

/** Another build, which runs here, and what it says of itself. */
export interface Candidate {
  /** Its folder, which has `bin/svc` and `install.sh`. */
  root: string;
  version: string;
  build: string | null;
  /** The newest format of a log that it reads. */
  log_format: number;
  /** By format, the kinds of events that need it. */
  log_kinds: Readonly<Record<string, readonly string[]>>;
}

const run = promisify(execFile);

/**
 * Checks the digest of an archive, unpacks it and asks its program. Calls `use`, and removes the
 * folder. Throws upgrade_refused.
 */
export async function withArchive<T>(
  given: string,
  sha256: string | undefined,
  use: (candidate: Candidate) => Promise<T>,
): Promise<T> {
  const file = archiveIn(resolve(given));
  const expected = sha256 ?? listedDigest(file);
  const digest = await digestOf(file);
  if (digest !== expected.toLowerCase())
    throw refused(`${file} has the SHA-256 ${digest}, and not ${expected}.`);
  await removeLeftovers();
  const folder = await mkdtemp(join(tmpdir(), `${UNPACKED}${process.pid}-`));
  try {
    const root = join(folder, 'svc');
    await mkdir(root);
    await run('tar', ['-xzf', file, '-C', root, '--strip-components=1', '--no-same-owner']);
    return await use(await describe(root));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const UNPACKED = 'svc-upgrade-';

/** A command that was killed leaves what it unpacked. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(UNPACKED) ? Number(name.split('-')[2]) : Number.NaN;
    if (Number.isSafeInteger(pid) && pid > 0 && !isAlive(pid))
      await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => {});
  }
}

/** Asks the program in a folder. Throws upgrade_refused. `script` puts an older one into use. */
export async function describe(
  root: string,
  script = join('<folder of the archive>', 'install.sh'),
): Promise<Candidate> {
  const { stdout } = await run(join(root, 'bin', 'svc'), ['version', '--json']).catch((cause) => {
    throw refused(`The program in ${root} does not run here: ${lastLine(cause)}`);
  });
  const { platform, ...said } = JSON.parse(stdout) as Candidate & { platform: string };
  const { version } = JSON.parse(
    readFileSync(join(root, 'lib', 'svc', 'package.json'), 'utf8'),
  ) as Candidate;
  if (said.version !== version || platform !== SYSTEM)
    throw refused(`The program says ${said.version} for ${platform}, and its package ${version}.`);
  if (said.log_format === undefined)
    throw refused(
      `svc ${version} is older than this command, and cannot fold a log beside another version.`,
      `A script puts it into use: ${script}`,
    );
  return { ...said, root: realpathSync(root) };
}

/** The archive itself, or the one for this system that SHA256SUMS in the folder names. */
function archiveIn(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw refused(`${path} does not exist.`);
  if (!found.isDirectory()) return path;
  const names = [...sumsIn(path).keys()].filter((name) => name.endsWith(`-${SYSTEM}.tar.gz`));
  if (names.length !== 1)
    throw refused(`${path} names ${names.length} archives for ${SYSTEM} in SHA256SUMS.`);
  return join(path, names[0] ?? '');
}

function listedDigest(file: string): string {
  const digest = sumsIn(dirname(file)).get(basename(file));
  if (digest !== undefined) return digest;
  throw refused(
    `SHA256SUMS beside ${file} does not name it, so nothing says that it is whole.`,
    'Put the SHA256SUMS of its publisher beside it, or name the digest: --sha256 <digest>',
  );
}

function sumsIn(folder: string): ReadonlyMap<string, string> {
  const sums = join(folder, 'SHA256SUMS');
  if (!existsSync(sums)) return new Map();
  const lines = readFileSync(sums, 'utf8').matchAll(/^([0-9a-f]{64}) [ *](.+)$/gim);
  return new Map([...lines].map(([, digest = '', name = '']) => [name, digest]));
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest('hex');
}

export function lastLine({ stderr, message }: { stderr?: string; message: string }): string {
  return oneLine((stderr || message).trim().split('\n').at(-1) ?? '');
}

export function refused(why: string, hint?: string): SvcError {
  return new SvcError('upgrade_refused', why, hint === undefined ? {} : { hint });
}
