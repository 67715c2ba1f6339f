import { createHash } from 'node:crypto';
import { constants, createReadStream, type Stats } from 'node:fs';
import {
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { whyUnusable } from '../../../causes.ts';
import { platform, SYSTEM } from '../../../home/platform.ts';
import { isAlive } from '../../../home/process-alive.ts';
import { type ProgramFailure, runProgram } from '../../terminal/foreign-program.ts';

import { type Candidate, describe, refusalError } from './candidate.ts';

/**
 * Checks the digest of an archive, unpacks it and asks its program. Calls `use`, and removes the
 * folder. Throws upgrade_refused.
 *
 * The digest is that of a copy in a folder of this user, and the copy is unpacked. No other user
 * can replace the archive between the two.
 */
export async function withArchive<T>(
  given: string,
  sha256: string | undefined,
  use: (candidate: Candidate) => Promise<T>,
): Promise<T> {
  const file = await archiveIn(resolve(given));
  const expected = sha256 ?? (await listedDigest(file));
  await removeLeftovers();
  const folder = await privateFolder();
  try {
    const copy = join(folder, 'archive.tar.gz');
    await copyFile(file, copy, constants.COPYFILE_EXCL).catch((cause) => {
      throw refusalError(`${file} cannot be copied to ${folder} (${cause.code}).`, SPACE);
    });
    const digest = await digestOf(copy);
    if (digest !== expected.toLowerCase())
      throw refusalError(`${file} has the SHA-256 ${digest}, and not ${expected}.`, AGAIN);
    const root = join(folder, 'svc');
    await mkdir(root);
    await runProgram('tar', ['-xzf', copy, '-C', root, '--strip-components=1', '--no-same-owner'], {
      env: { ...process.env, LC_ALL: 'C' },
    }).catch((cause: ProgramFailure) => {
      throw unpackErrorOf(file, cause);
    });
    await rm(copy);
    await Promise.all([PROGRAM, PACKAGE].map((part) => stat(join(root, part)))).catch(() => {
      throw incompleteError(file, `it has no ${PROGRAM} and ${PACKAGE}`);
    });
    return await use(await describe(root));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const PROGRAM = 'bin/svc';
const PACKAGE = 'lib/svc/package.json';
const UNPACKED = 'svc-upgrade-';
const SPACE = `The folder for temporary files needs space. To take another: TMPDIR=<folder>`;

function unpackErrorOf(file: string, { isMissing, message }: ProgramFailure) {
  if (isMissing)
    return refusalError(`${message}, and svc unpacks an archive with it.`, 'Install it first.');
  if (/No space left|quota/i.test(message))
    return refusalError(`${file} cannot be unpacked in ${tmpdir()}: ${message}.`, SPACE);
  return incompleteError(file, message);
}

function incompleteError(file: string, why: string) {
  return refusalError(
    `${file} is not a complete archive of svc: ${why}. Nothing was changed.`,
    AGAIN,
  );
}
const AGAIN = 'Download it again, with its SHA256SUMS.';
const NAMED = 'Name the archive of a version, or the folder that has it and its SHA256SUMS.';

/** Only this user can look into it. */
function privateFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), `${UNPACKED}${process.pid}-`));
}

/**
 * A command that was killed leaves its folder. It is moved into a folder of this user first: there
 * no one can put a link in its place.
 */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(UNPACKED) ? Number(name.split('-')[2]) : Number.NaN;
    if (!Number.isSafeInteger(pid) || pid <= 0 || isAlive(pid)) continue;
    const path = join(tmpdir(), name);
    if (!(await isPrivate(path))) continue;
    const bin = await privateFolder();
    const moved = join(bin, 'left');
    try {
      await rename(path, moved);
      if (await isPrivate(moved)) await rm(moved, { recursive: true, force: true });
      else await rename(moved, path);
    } catch {
      // Another command has removed it.
    }
    await rmdir(bin).catch(() => {});
  }
}

async function isPrivate(path: string): Promise<boolean> {
  const found: Stats | null = await lstat(path).catch(() => null);
  return (
    found?.isDirectory() === true &&
    platform.isOwn(found.uid) &&
    (found.mode & platform.others) === 0
  );
}

/** The archive itself, or the one for this system that SHA256SUMS in the folder names. */
async function archiveIn(path: string): Promise<string> {
  const found = await stat(path).catch((cause) => {
    throw refusalError(`${path}: ${whyUnusable(cause)}.`, NAMED);
  });
  if (found.isFile()) return path;
  if (!found.isDirectory()) throw refusalError(`${path} is not a file.`, NAMED);
  const sums = await sumsIn(path);
  if (sums === null) throw refusalError(`The folder ${path} has no SHA256SUMS.`, NAMED);
  const names = [...sums.keys()].filter((name) => name.endsWith(`-${SYSTEM}.tar.gz`));
  if (names.length !== 1)
    throw refusalError(
      `SHA256SUMS in ${path} names ${names.length} archives for ${SYSTEM}.`,
      NAMED,
    );
  const file = join(path, names[0] ?? '');
  const named = await stat(file).catch(() => null);
  if (named?.isFile() !== true)
    throw refusalError(`SHA256SUMS names ${file}, and there is no such file.`, AGAIN);
  return file;
}

async function listedDigest(file: string): Promise<string> {
  const sums = await sumsIn(dirname(file));
  const digest = sums?.get(basename(file));
  if (digest !== undefined) return digest;
  const lacks =
    sums === null ? `There is no SHA256SUMS beside ${file}` : `SHA256SUMS does not name ${file}`;
  throw refusalError(
    `${lacks}, so nothing says that it is whole.`,
    'Put the SHA256SUMS of its publisher beside it, or name the digest: --sha256 <digest>',
  );
}

/** Null: the folder has no such file. */
async function sumsIn(folder: string): Promise<ReadonlyMap<string, string> | null> {
  const sums = join(folder, 'SHA256SUMS');
  const text = await readFile(sums, 'utf8').catch((cause) => {
    if (cause.code === 'ENOENT') return null;
    throw refusalError(`${sums} cannot be read: ${whyUnusable(cause)}.`, NAMED);
  });
  if (text === null) return null;
  const lines = text.matchAll(/^([0-9a-f]{64}) [ *](.+)$/gim);
  return new Map([...lines].map(([, digest = '', name = '']) => [name, digest]));
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest('hex');
}
