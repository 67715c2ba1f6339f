import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SvcError } from '../../../errors.ts';
import { buildsFolder } from '../../../home/engine-builds.ts';
import {
  archiveEnd,
  LLAMA_RELEASE,
  LLAMA_RELEASES,
  LLAMA_SERVER,
  llamaServerFolder,
  programIn,
} from '../../../home/llama-server.ts';
import { SYSTEM } from '../../../home/platform.ts';
import { defaultLimits } from '../../../limits.ts';
import { oneLine } from '../../../logs/plain.ts';
import {
  type Archive,
  fetchArchive,
  findArchive,
  HubClient,
  isAllowed,
  refuseOther,
} from '../../../models/index.ts';
import type { Context } from '../../terminal/context.ts';
import { type ProgramFailure, runProgram } from '../../terminal/foreign-program.ts';
import { INTERRUPTED, onInterrupt } from '../../terminal/interrupt.ts';
import { listFlag, textFlag } from '../../terminal/parse/flag-values.ts';
import { bytes } from '../../terminal/print/format.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';

/**
 * Installs llama.cpp's server into the home.
 *
 * 1. It is the release of the engine's libraries, or an archive that the user names.
 * 2. Nothing is unpacked without a digest: that of the user, or that of the release.
 * 3. It has its place once its program has started.
 */
export async function installLlamaServer({ flags, paths, json }: Context): Promise<number> {
  const [file, ...more] = listFlag(flags, 'archive') ?? [];
  if (more.length > 0) throw new SvcError('usage', 'llama-server is one archive.');
  const sha256 = digestOf(textFlag(flags, 'sha256'));
  const from = textFlag(flags, 'from');
  const builds = buildsFolder(paths);
  await mkdir(builds, { recursive: true, mode: 0o700 });
  const draft = await mkdtemp(join(builds, '.draft-'));
  const interrupt = onInterrupt();
  const client = new HubClient(process.env, defaultLimits);
  try {
    const archive =
      file === undefined
        ? await download(client, { from, sha256, draft, signal: interrupt.signal })
        : await readGiven(file, sha256);
    const folder = join(draft, 'unpacked');
    await unpack(archive.path, folder, interrupt.signal);
    const version = await versionOf(folder, interrupt.signal);
    const place = llamaServerFolder(paths);
    await rm(place, { recursive: true, force: true });
    await rename(folder, place);
    const program = programIn(place);
    if (json) printJson({ build: LLAMA_SERVER, version, program, sha256: archive.sha256 });
    else {
      print(`Installed ${LLAMA_SERVER} (${oneLine(version)}) in ${oneLine(place)}.`);
      note(`Its archive has the sha256 ${archive.sha256}.`);
      note('Images and sound go to it where a model has its file for them (mmproj).');
    }
    return 0;
  } catch (error) {
    if (interrupt.signal.aborted) return INTERRUPTED;
    throw error;
  } finally {
    await client.close();
    interrupt.release();
    await rm(draft, { recursive: true, force: true });
  }
}

interface Found {
  path: string;
  sha256: string;
}

/** An archive that the user has. */
async function readGiven(file: string, wanted: string | null): Promise<Found> {
  const sha256 = wanted ?? missingDigest();
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(file)) hash.update(chunk);
  } catch (cause) {
    throw new SvcError('usage', `The archive ${JSON.stringify(file)} cannot be read.`, { cause });
  }
  refuseOther(basename(file), hash.digest('hex'), sha256);
  return { path: resolve(file), sha256 };
}

async function download(
  client: HubClient,
  options: { from: string | undefined; sha256: string | null; draft: string; signal: AbortSignal },
): Promise<Found> {
  const { from = LLAMA_RELEASES, draft, signal } = options;
  const archive = await archiveAt(client, from, signal);
  const sha256 = options.sha256 ?? archive.sha256 ?? missingDigest();
  note(`Downloading ${oneLine(archive.name)} from ${archive.url.host} …`);
  let told = 0;
  const report = (done: number, all: number | null) => {
    const tenth = all === null ? 0 : Math.floor((done / all) * 10);
    if (tenth > told) note(`${tenth * 10}% of ${bytes(all ?? 0)}`);
    told = tenth;
  };
  const path = join(draft, archive.name.endsWith('.zip') ? 'archive.zip' : 'archive.tar.gz');
  await fetchArchive(client, archive, sha256, path, { signal, report });
  return { path, sha256 };
}

/** The address of an archive, or of releases that are described as GitHub does it. */
async function archiveAt(client: HubClient, from: string, signal: AbortSignal): Promise<Archive> {
  const url = URL.canParse(from) ? new URL(from) : null;
  if (url === null || !isAllowed(url))
    throw new SvcError('usage', `${JSON.stringify(from)} is not an https address.`);
  if (/\.(tar\.gz|tgz|zip)$/i.test(url.pathname))
    return { url, name: url.pathname.split('/').at(-1) ?? '', sha256: null };
  const end = archiveEnd();
  if (end === null)
    throw new SvcError('usage', `llama.cpp has no archive for ${SYSTEM}.`, {
      hint: 'Build it, and set llama_server to the path of the program.',
    });
  const releases = from.endsWith('/') ? from : `${from}/`;
  return findArchive(client, { releases, release: LLAMA_RELEASE, end }, signal);
}

function digestOf(text: string | undefined): string | null {
  const digest = text
    ?.trim()
    .toLowerCase()
    .replace(/^sha256:/, '');
  if (digest === undefined || /^[0-9a-f]{64}$/.test(digest)) return digest ?? null;
  throw new SvcError('usage', 'A sha256 has 64 hexadecimal digits.');
}

function missingDigest(): never {
  throw new SvcError('usage', 'Nothing says which digest the archive should have.', {
    hint: 'Add --sha256 <digest>. The page of the release has it beside each archive.',
  });
}

async function unpack(file: string, folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(folder);
  // The archives for Windows have no folder.
  const strip = file.endsWith('.zip') ? [] : ['--strip-components=1', '--no-same-owner'];
  await runProgram('tar', ['-xf', file, '-C', folder, ...strip], { signal }).catch(
    ({ message }: ProgramFailure) => {
      throw installError(`${basename(file)} could not be unpacked: ${message}`);
    },
  );
}

/** The first line that the program says of itself. Throws if it does not start. */
async function versionOf(folder: string, signal: AbortSignal): Promise<string> {
  const program = programIn(folder);
  const said = await runProgram(
    program,
    ['--version'],
    { signal, timeout: START_MS },
    'both',
  ).catch(({ message, isMissing }: ProgramFailure) => {
    throw installError(isMissing ? `the archive has no ${basename(program)}` : message);
  });
  return said.split('\n').find((line) => line.startsWith('version')) ?? 'of an unknown version';
}

const START_MS = 60_000;

function installError(what: string): SvcError {
  return new SvcError('pull_failed', `Nothing was installed: ${what}.`, {
    retryable: false,
    hint: 'Choose another archive with --from, or set llama_server to a program that starts.',
  });
}
