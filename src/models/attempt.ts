import { SvcError } from '../errors.ts';
import type { PullContext } from './context.ts';
import { pullError } from './failure.ts';
import { checkGguf } from './gguf/check.ts';
import { sha256Of } from './gguf/sha256.ts';
import { shownAddress } from './hub/reference.ts';
import { findSource, type Source } from './hub/source.ts';
import { PartialFile } from './partial-file.ts';
import { discard, type PullPaths, preparePaths, putInPlace, sizeOf } from './paths.ts';
import type { Fit } from './port.ts';
import { receive } from './receive.ts';
import type { Report } from './report.ts';
import { checkSpace } from './space.ts';
import type { Task } from './task.ts';
import { Throttle } from './throttle.ts';
import { openTransfer } from './transfer.ts';

export interface AttemptOptions {
  task: Task;
  context: PullContext;
  report: Report;
  /** Reserves the file for this pull. Throws if another pull has it. */
  claim(file: string): void;
  signal: AbortSignal;
}

/**
 * One attempt to download a model, from where the last one stopped. Resolves once the model is in
 * its place. Throws SvcError. Keeps the downloaded bytes unless they are wrong.
 *
 * 1. If a model of that name exists, it must be the same one.
 * 2. Otherwise the attempt downloads the missing bytes, verifies the file and renames it.
 */
export async function attemptPull(options: AttemptOptions): Promise<void> {
  const { task, context, report, claim, signal } = options;
  const source = await findSource(task, context.hubClient, context.limits, signal);
  claim(source.file);
  const paths = await preparePaths(context.folder, source.file);
  const existing = await sizeOf(paths.target);
  let found: Found;
  if (existing !== null) {
    found = await checkExisting(paths, source, existing, options);
  } else {
    found = await fetchNew(paths, source, options).catch(async (thrown: unknown) => {
      if (thrown instanceof SvcError && thrown.discard) await discard(paths);
      throw thrown;
    });
    signal.throwIfAborted();
    if ((await sizeOf(paths.target)) !== null) throw taken(source);
    await putInPlace(paths);
  }
  const at = new Date().toISOString();
  await context.origins?.write(paths.target, source.file, {
    ...found,
    at,
    url: shownAddress(source.url),
    reference: task.shown,
  });
  await report.completed(paths.target);
}

/** Downloads nothing: the existing file has the wanted hash, or the attempt fails. */
async function checkExisting(
  paths: PullPaths,
  source: Source,
  size: number,
  options: AttemptOptions,
): Promise<Found> {
  const { url, file, sha256, size_bytes, revision, choices } = source;
  if (sha256 === null || (size_bytes !== null && size_bytes !== size)) throw taken(source);
  await options.report.resolved(
    { url: shownAddress(url), file, size_bytes: size, sha256, etag: null, revision, choices },
    size,
  );
  await options.report.downloaded(size, true);
  const found = await hash(paths.target, options);
  if (found !== sha256) throw taken(source);
  await options.report.verified(found, true);
  await discard(paths);
  return { sha256: found, revision };
}

async function fetchNew(paths: PullPaths, source: Source, options: AttemptOptions): Promise<Found> {
  const { sha256, revision } = await download(paths, source, options);
  const found = await hash(paths.partial, options);
  if (sha256 !== null && found !== sha256) {
    throw pullError(
      'pull_failed',
      `The downloaded file has the sha256 ${found}, not ${sha256}. It was deleted.`,
      { discard: true, hint: WRONG_FILE },
    );
  }
  await checkGguf(paths.partial, options.context.limits.model_header_bytes);
  await options.report.verified(found, sha256 !== null);
  return { sha256: found, revision };
}

const WRONG_FILE =
  'The file on the server, or the expected hash, is wrong. ' +
  'Compare the two, or choose another file.';

/** What an attempt knows about the file. */
interface Found {
  sha256: string;
  revision: string | null;
}

/** Resolves with the expected hash, if known, once all bytes are on disk. */
async function download(
  paths: PullPaths,
  source: Source,
  { task, context, report, signal }: AttemptOptions,
): Promise<{ sha256: string | null; revision: string | null }> {
  const { limits, host_boot_id, hubClient } = context;
  const wanted = {
    url: shownAddress(source.url),
    etag: null,
    size_bytes: source.size_bytes,
    sha256: source.sha256,
  };
  const partial = await PartialFile.find(paths, wanted, {
    sync_bytes: limits.pull_sync_bytes,
    host_boot_id,
  });
  const transfer = await openTransfer(source, partial, hubClient, signal);
  const { identity, revision } = transfer;
  try {
    checkFit(task, context.fit(identity.size_bytes));
    await partial.begin(identity);
    await checkSpace(context, Math.max(0, (identity.size_bytes ?? 0) - partial.bytes));
    await report.resolved(
      { ...identity, file: source.file, revision, choices: source.choices },
      partial.bytes,
    );
    await receive(transfer, partial, { source, context, report, signal });
    await partial.sync();
  } finally {
    await transfer.answer.body?.cancel().catch(() => undefined);
    await partial.close();
    if (partial.bytes === 0) await discard(paths);
  }
  await report.downloaded(partial.bytes, false);
  return { sha256: identity.sha256, revision };
}

/** Throws model_too_large before anything of the file is kept, unless the user wants it anyway. */
function checkFit({ anyway, shown }: Task, fit: Fit | null): void {
  if (anyway || fit?.verdict !== 'does not fit') return;
  throw pullError('model_too_large', fit.text, {
    hint: `Take a smaller one. To download it anyway: svc model pull ${shown} --anyway`,
  });
}

async function hash(path: string, { context, report, signal }: AttemptOptions): Promise<string> {
  const progress = new Throttle(context.limits.pull_progress_ms, 0, (bytes) =>
    report.hashed(bytes),
  );
  try {
    return await sha256Of(path, signal, (bytes) => progress.update(bytes));
  } finally {
    progress.stop();
  }
}

function taken({ file, sha256 }: Source): SvcError {
  const why =
    sha256 === null
      ? 'without --sha256 the two files cannot be compared: the hash of the new one is unknown'
      : 'it is a different file';
  return pullError(
    'model_exists',
    `A model ${file.replace(/\.gguf$/, '')} exists already; ${why}.`,
  );
}
