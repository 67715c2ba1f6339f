import { SvcError } from '../errors.ts';
import { pullError } from './failure.ts';
import { checkGguf } from './gguf/check.ts';
import { shownAddress } from './hub/reference.ts';
import { findSource, type Source } from './hub/source.ts';
import { PartialFile } from './partial-file.ts';
import { discard, openPlace, type Place, putInPlace, sizeOf } from './place.ts';
import { receive } from './receive.ts';
import { paced, type Report } from './report.ts';
import { sha256Of } from './sha256.ts';
import { checkSpace } from './space.ts';
import type { Task } from './task.ts';
import type { Tools } from './tools.ts';
import { openTransfer } from './transfer.ts';

export interface AttemptOptions {
  task: Task;
  tools: Tools;
  report: Report;
  /** From now on nobody else writes this file. Throws when somebody does. */
  claim(file: string): void;
  signal: AbortSignal;
}

/**
 * One attempt to fetch a model, from where the last one stopped. Resolves when the model is in its place; throws SvcError. What was
 * fetched stays, unless it turned out to be wrong.
 *
 * 1. A model of that name is there: it is the same, or the attempt fails.
 * 2. Else the missing bytes are fetched, verified, and take their name.
 */
export async function attemptPull(options: AttemptOptions): Promise<void> {
  const { task, tools, report, claim, signal } = options;
  const source = await findSource(task, tools.web, tools.limits, signal);
  claim(source.file);
  const place = await openPlace(tools.folder, source.file);
  const existing = await sizeOf(place.target);
  if (existing !== null) {
    await checkExisting(place, source, existing, options);
  } else {
    await fetchNew(place, source, options).catch(async (thrown: unknown) => {
      if (thrown instanceof SvcError && thrown.discard) await discard(place);
      throw thrown;
    });
    signal.throwIfAborted();
    if ((await sizeOf(place.target)) !== null) throw taken(source);
    await putInPlace(place);
  }
  await report.completed(place.target);
}

/** Nothing is fetched: the file either hashes to what is wanted, or it is another. */
async function checkExisting(
  place: Place,
  source: Source,
  size: number,
  options: AttemptOptions,
): Promise<void> {
  const { url, file, sha256, size_bytes, revision, choices } = source;
  if (sha256 === null || (size_bytes !== null && size_bytes !== size)) throw taken(source);
  await options.report.resolved(
    { url: shownAddress(url), file, size_bytes: size, sha256, etag: null, revision, choices },
    size,
  );
  await options.report.downloaded(size, true);
  const found = await hash(place.target, options);
  if (found !== sha256) throw taken(source);
  await options.report.verified(found, true);
  await discard(place);
}

async function fetchNew(place: Place, source: Source, options: AttemptOptions): Promise<void> {
  const sha256 = await download(place, source, options);
  const found = await hash(place.partial, options);
  if (sha256 !== null && found !== sha256) {
    throw pullError(
      'pull_failed',
      `What was fetched is not the file: its sha256 is ${found}, not ${sha256}. It was deleted.`,
      { discard: true },
    );
  }
  await checkGguf(place.partial, options.tools.limits.model_header_bytes);
  await options.report.verified(found, sha256 !== null);
}

/** Resolves, once all bytes are on disk, with what the file must hash to, if anybody says. */
async function download(
  place: Place,
  source: Source,
  { tools, report, signal }: AttemptOptions,
): Promise<string | null> {
  const { limits, host_boot_id, web } = tools;
  const wanted = {
    url: shownAddress(source.url),
    etag: null,
    size_bytes: source.size_bytes,
    sha256: source.sha256,
  };
  const partial = await PartialFile.find(place, wanted, {
    sync_bytes: limits.pull_sync_bytes,
    host_boot_id,
  });
  const transfer = await openTransfer(source, partial, web, signal);
  const { identity, revision } = transfer;
  try {
    await partial.begin(identity);
    await checkSpace(tools, Math.max(0, (identity.size_bytes ?? 0) - partial.bytes));
    await report.resolved(
      { ...identity, file: source.file, revision, choices: source.choices },
      partial.bytes,
    );
    await receive(transfer, partial, { tools, report, signal });
    await partial.sync();
  } finally {
    await transfer.answer.body?.cancel().catch(() => undefined);
    await partial.close();
    if (partial.bytes === 0) await discard(place);
  }
  await report.downloaded(partial.bytes, false);
  return identity.sha256;
}

function hash(path: string, { tools, report, signal }: AttemptOptions): Promise<string> {
  return sha256Of(
    path,
    signal,
    paced(tools.limits.pull_progress_ms, (bytes) => report.hashed(bytes)),
  );
}

function taken({ file, sha256 }: Source): SvcError {
  const why =
    sha256 === null
      ? 'whether it is the same cannot be told without --sha256, since nobody says what the new one hashes to'
      : 'it is another one';
  return pullError(
    'model_exists',
    `There is a model ${file.replace(/\.gguf$/, '')} already, and ${why}.`,
  );
}
