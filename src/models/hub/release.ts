import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { isRecord, JsonExcess, JsonMeter, readJsonBody } from '../../json.ts';
import { jsonBudgets } from '../../limits.ts';
import { connectionError, pullError } from '../failure.ts';
import type { Answer, HubClient } from './client.ts';
import { isAllowed } from './reference.ts';

/** Archives of a release, as the API of GitHub describes it. */

export interface Archive {
  url: URL;
  name: string;
  /** Null: nothing says it. */
  sha256: string | null;
}

/** A release describes each of its archives in about 2 kB. */
const RELEASE_BYTES_MAX = 4 * 1024 * 1024;
const POINTER_BYTES_MAX = 256;
/** The largest archive of llama.cpp has a third of it. */
export const ARCHIVE_BYTES_MAX = 1024 ** 3;
const POINTER = 'nightly-tag.txt';

/**
 * The archive whose name ends so. A release without archives may name the release that has them, in
 * the file `nightly-tag.txt`. Throws SvcError.
 */
export async function findArchive(
  client: HubClient,
  { releases, release, end }: { releases: string; release: string; end: string },
  signal: AbortSignal,
): Promise<Archive> {
  const assets = await readRelease(client, releases + release, signal);
  const found = archiveIn(assets, end);
  if (found !== null) return found;
  const pointer = archiveIn(assets, POINTER);
  if (pointer === null) throw noArchive(release, end);
  const tag = (await readPointer(client, pointer, signal)).trim();
  if (!/^[\w.-]{1,64}$/.test(tag)) throw noArchive(release, end);
  const other = archiveIn(await readRelease(client, releases + tag, signal), end);
  if (other === null) throw noArchive(tag, end);
  return other;
}

function archiveIn(assets: readonly unknown[], end: string): Archive | null {
  for (const asset of assets) {
    if (!isRecord(asset)) continue;
    const { name, browser_download_url: address, digest } = asset;
    if (typeof name !== 'string' || !name.endsWith(end) || /^cudart/.test(name)) continue;
    if (typeof address !== 'string' || !URL.canParse(address)) continue;
    const url = new URL(address);
    const [, sha256 = null] = /^sha256:([0-9a-f]{64})$/.exec(String(digest)) ?? [];
    if (isAllowed(url)) return { url, name, sha256 };
  }
  return null;
}

async function readRelease(
  client: HubClient,
  address: string,
  signal: AbortSignal,
): Promise<readonly unknown[]> {
  const url = new URL(address);
  const answer = await client.get({ url, hub: null, signal, headers: { accept: JSON_TYPE } });
  if (answer.status !== 200) throw await toUnsentError(answer, url);
  const meter = new JsonMeter({ ...jsonBudgets.list, bytes: RELEASE_BYTES_MAX });
  const release = await readJsonBody(answer.body, meter).catch((thrown: unknown) => {
    if (thrown instanceof JsonExcess)
      throw pullError('pull_failed', `The release that ${url.host} sends has ${thrown.message}.`);
    throw signal.aborted ? thrown : connectionError(thrown, url.host);
  });
  if (isRecord(release) && Array.isArray(release.assets)) return release.assets;
  throw pullError('pull_failed', `${url.host} does not describe a release at ${url.pathname}.`);
}

const JSON_TYPE = 'application/json';

async function readPointer(client: HubClient, { url }: Archive, signal: AbortSignal) {
  const answer = await client.get({ url, hub: null, signal });
  if (answer.status !== 200) throw await toUnsentError(answer, url);
  let text = '';
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk).toString('utf8');
    if (text.length > POINTER_BYTES_MAX) break;
  }
  return text;
}

/**
 * Writes an archive to a file. Throws SvcError unless it has the digest. `report` gets the bytes so
 * far, and all if they are known.
 */
export async function fetchArchive(
  client: HubClient,
  { url, name }: Archive,
  sha256: string,
  path: string,
  { signal, report }: { signal: AbortSignal; report(bytes: number, all: number | null): void },
): Promise<void> {
  const answer = await client.get({ url, hub: null, signal });
  if (answer.status !== 200) throw await toUnsentError(answer, url);
  const size = Number(answer.headers.get('content-length') ?? Number.NaN);
  const hash = createHash('sha256');
  const file = await open(path, 'wx', 0o600);
  let bytes = 0;
  try {
    for await (const chunk of answer.body ?? []) {
      bytes += chunk.length;
      if (bytes > ARCHIVE_BYTES_MAX)
        throw pullError('pull_failed', `${url.host} sends more than 1 GiB as ${name}.`);
      hash.update(chunk);
      await file.write(chunk);
      report(bytes, Number.isSafeInteger(size) ? size : null);
    }
  } catch (thrown) {
    throw signal.aborted ? thrown : connectionError(thrown, url.host);
  } finally {
    await file.close();
  }
  refuseOther(name, hash.digest('hex'), sha256);
}

/** Throws pull_failed unless the digests are equal. */
export function refuseOther(name: string, found: string, wanted: string): void {
  if (found !== wanted)
    throw pullError('pull_failed', `${name} has the sha256 ${found}, not ${wanted}.`, {
      hint: 'Nothing was installed. Compare the digest with that of the release on its page.',
    });
}

async function toUnsentError(answer: Answer, { host, pathname }: URL) {
  await answer.body?.cancel().catch(() => undefined);
  const retryable = answer.status >= 500 || answer.status === 429;
  return pullError('pull_failed', `${host} does not send ${pathname} (${answer.status}).`, {
    retryable,
    hint: 'Check the address, or give an archive that you have: --archive <file> --sha256 <digest>',
  });
}

function noArchive(release: string, end: string) {
  return pullError('pull_failed', `The release ${release} has no archive …${end}.`, {
    hint: 'Give the address of an archive with --from, and its digest with --sha256.',
  });
}
