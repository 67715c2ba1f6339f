import { readdir } from 'node:fs/promises';
import type { Fit } from '../contract/model-record.ts';
import { SvcError } from '../errors.ts';
import type { PullContext } from './context.ts';
import { pullError } from './failure.ts';
import { checkPart } from './gguf/check.ts';
import { withoutPart } from './gguf/parts.ts';
import { type Hashes, hashFiles } from './gguf/sha256.ts';
import { shownAddress } from './hub/reference.ts';
import { type Download, findDownload, type Source } from './hub/source.ts';
import { PartialFile } from './partial-file.ts';
import { discard, type PullPaths, preparePaths, putInPlace, sizeOf } from './paths.ts';
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
 * 1. A file that is there already must be the same one.
 * 2. Otherwise the attempt downloads the missing bytes. When all files are whole, it verifies them
 *    and renames them.
 */
export async function attemptPull(options: AttemptOptions): Promise<void> {
  const { task, context, report, claim, signal } = options;
  const download = await findDownload(task, context.hubClient, context.limits, signal);
  const sources = [...download.parts, ...download.others];
  for (const file of new Set([download.file, ...sources.map(({ file }) => file)])) claim(file);
  const pieces: Piece[] = [];
  for (const source of sources) {
    const paths = await preparePaths(context.folder, source.file);
    pieces.push(new Piece(source, paths, await sizeOf(paths.target)));
  }
  await refuseOtherForm(download, sources, context.folder);
  await fetchAll(pieces, download, options);
  const sha256 = await verify(pieces, download, options);
  signal.throwIfAborted();
  // The model comes last: with its first part it is in the list.
  for (const piece of pieces.toReversed()) await piece.place();
  const [first] = pieces as [Piece, ...Piece[]];
  await context.origins?.write(first.paths.target, first.source.file, {
    sha256,
    revision: first.revision,
    at: new Date().toISOString(),
    url: shownAddress(first.source.url),
    reference: task.shown,
  });
  await report.completed(first.paths.target);
}

/** A file of the download, as far as it is known. */
class Piece {
  readonly source: Source;
  readonly paths: PullPaths;
  /** Bytes of a file that was in its place before. Null: it is fetched. */
  readonly existing: number | null;
  sha256: string | null;
  revision: string | null;
  partial: PartialFile | null = null;

  constructor(source: Source, paths: PullPaths, existing: number | null) {
    this.source = source;
    this.paths = paths;
    this.existing = existing;
    this.sha256 = source.sha256;
    this.revision = source.revision;
  }

  /** Where its bytes are now. */
  get path(): string {
    return this.existing === null ? this.paths.partial : this.paths.target;
  }

  get bytes(): number {
    return this.existing ?? this.partial?.bytes ?? 0;
  }

  /** Null: the server does not say it. */
  get size_bytes(): number | null {
    return this.existing ?? this.source.size_bytes;
  }

  /** Throws model_exists if the file that is there is surely another one, or cannot be compared. */
  refuseOther(): void {
    const { size_bytes } = this.source;
    if (this.existing === null) return;
    if (this.sha256 === null || (size_bytes !== null && size_bytes !== this.existing))
      throw modelExistsError(this.source);
  }

  async place(): Promise<void> {
    if (this.existing !== null) return discard(this.paths);
    if ((await sizeOf(this.paths.target)) !== null) throw modelExistsError(this.source);
    await putInPlace(this.paths);
  }

  /** Deletes the fetched bytes if the error says that they are wrong. */
  async discardIfWrong<T>(work: Promise<T>): Promise<T> {
    return work.catch(async (thrown: unknown) => {
      if (this.existing === null && thrown instanceof SvcError && thrown.discard)
        await discard(this.paths);
      throw thrown;
    });
  }
}

/** A model in one file and one in several may not have the same name. */
async function refuseOtherForm(
  { file }: Download,
  sources: readonly Source[],
  folder: string,
): Promise<void> {
  const mine = sources.map((source) => source.file);
  const other = (await readdir(folder)).find(
    (name) => withoutPart(name) === file && !mine.includes(name),
  );
  if (other !== undefined)
    throw pullError('model_exists', `A model ${bareName(file)} exists already: ${other}.`);
}

/** Resolves once all bytes are on disk. */
async function fetchAll(
  pieces: readonly Piece[],
  download: Download,
  options: AttemptOptions,
): Promise<void> {
  const { context, report } = options;
  for (const piece of pieces) piece.refuseOther();
  const missing = pieces.filter(({ existing }) => existing === null);
  for (const piece of missing)
    piece.partial = await PartialFile.find(piece.paths, identityOf(piece.source), {
      sync_bytes: context.limits.pull_sync_bytes,
      host_boot_id: context.host_boot_id,
    });
  const whole = new Whole(pieces, download);
  if (missing.length === 0) await report.resolved(whole.source(null), whole.bytes);
  for (const [index, piece] of missing.entries())
    await piece.discardIfWrong(fetchPiece(piece, whole, index === 0, options));
  await report.downloaded(whole.bytes, missing.length === 0);
}

/** All files of a download together. */
class Whole {
  private readonly pieces: readonly Piece[];
  private readonly download: Download;

  constructor(pieces: readonly Piece[], download: Download) {
    this.pieces = pieces;
    this.download = download;
  }

  get bytes(): number {
    return this.pieces.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** `size_bytes`: of a file whose server says it only now. */
  size(size_bytes: number | null): number | null {
    return this.pieces.reduce<number | null>((sum, piece) => {
      const size = piece.size_bytes ?? (this.pieces.length === 1 ? size_bytes : null);
      return sum === null || size === null ? null : sum + size;
    }, 0);
  }

  source(identity: { etag: string | null; size_bytes: number | null } | null) {
    const { file, parts, choices } = this.download;
    const [first] = this.pieces as [Piece, ...Piece[]];
    return {
      url: shownAddress(first.source.url),
      file,
      size_bytes: this.size(identity?.size_bytes ?? null),
      sha256: parts.length === 1 ? first.sha256 : this.download.sha256,
      etag: this.pieces.length === 1 ? (identity?.etag ?? null) : null,
      revision: first.revision,
      choices,
    };
  }
}

function identityOf({ url, size_bytes, sha256 }: Source) {
  return { url: shownAddress(url), etag: null, size_bytes, sha256 };
}

/** Fetches the missing bytes of a file. `isFirst`: nothing of the whole was recorded yet. */
async function fetchPiece(
  piece: Piece,
  whole: Whole,
  isFirst: boolean,
  { task, context, report, signal }: AttemptOptions,
): Promise<void> {
  const { source, paths } = piece;
  const partial = piece.partial as PartialFile;
  const transfer = await openTransfer(source, partial, context.hubClient, signal);
  const { identity, revision } = transfer;
  piece.sha256 = identity.sha256;
  piece.revision = revision;
  const size = whole.size(identity.size_bytes);
  try {
    if (isFirst) checkFit(task, context.fit(size));
    await partial.begin(identity);
    if (isFirst) {
      await checkSpace(context, Math.max(0, (size ?? 0) - whole.bytes));
      await report.resolved(whole.source(identity), whole.bytes);
    }
    const before = whole.bytes - partial.bytes;
    const reportProgress = (bytes: number) => report.progressed(before + bytes);
    await receive(transfer, partial, {
      source,
      context,
      report: { progressed: reportProgress },
      signal,
    });
    await partial.sync();
  } finally {
    await transfer.answer.body?.cancel().catch(() => undefined);
    await partial.close();
    if (partial.bytes === 0) await discard(paths);
  }
}

/** Throws model_too_large before anything of the file is kept, unless the user wants it anyway. */
function checkFit({ anyway, shown }: Task, fit: Fit | null): void {
  if (anyway || fit?.verdict !== 'does not fit') return;
  throw pullError('model_too_large', fit.text, {
    hint: `Take a smaller one. To download it anyway: svc model pull ${shown} --anyway`,
  });
}

/** Resolves with the hash of the model. Deletes a fetched file that is wrong. */
async function verify(
  pieces: readonly Piece[],
  download: Download,
  options: AttemptOptions,
): Promise<string> {
  const model = pieces.slice(0, download.parts.length);
  const others = pieces.slice(download.parts.length);
  const { whole, each } = await hash(model, 0, options);
  for (const [index, piece] of model.entries())
    await piece.discardIfWrong(compare(piece, each[index] ?? '', pieces.length));
  if (model.length > 1 && download.sha256 !== null && download.sha256 !== whole) {
    for (const piece of model) if (piece.existing === null) await discard(piece.paths);
    throw wrongHashError(download.file, whole, download.sha256);
  }
  let hashed = model.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const piece of others) {
    const found = await hash([piece], hashed, options);
    hashed += piece.bytes;
    await piece.discardIfWrong(compare(piece, found.whole, pieces.length));
  }
  const { model_header_bytes } = options.context.limits;
  for (const [index, piece] of pieces.entries()) {
    const place = index < model.length ? ([index, model.length] as const) : ([0, 1] as const);
    if (piece.existing === null)
      await piece.discardIfWrong(checkPart(piece.path, place, model_header_bytes));
  }
  const isCompared = download.sha256 !== null || model.every(({ sha256 }) => sha256 !== null);
  await options.report.verified(whole, isCompared);
  return whole;
}

/** Throws unless the file has the expected hash, where one is known. */
async function compare(
  { source, sha256, existing }: Piece,
  found: string,
  files: number,
): Promise<void> {
  if (sha256 === null || found === sha256) return;
  throw existing === null
    ? wrongHashError(files === 1 ? null : source.file, found, sha256)
    : modelExistsError(source);
}

function wrongHashError(file: string | null, found: string, sha256: string): SvcError {
  return pullError(
    'pull_failed',
    `The downloaded file${file === null ? '' : ` ${file}`} has the sha256 ${found}, not ` +
      `${sha256}. It was deleted.`,
    { discard: true, hint: WRONG_FILE },
  );
}

const WRONG_FILE =
  'The file on the server, or the expected hash, is wrong. ' +
  'Compare the two, or choose another file.';

/** `before`: the bytes that are hashed already. */
async function hash(
  pieces: readonly Piece[],
  before: number,
  { context, report, signal }: AttemptOptions,
): Promise<Hashes> {
  const progress = new Throttle(context.limits.pull_progress_ms, 0, (bytes) =>
    report.hashed(before + bytes),
  );
  try {
    const paths = pieces.map(({ path }) => path);
    return await hashFiles(paths, signal, (bytes) => progress.update(bytes));
  } finally {
    progress.stop();
  }
}

function modelExistsError({ file, sha256 }: Source): SvcError {
  const why =
    sha256 === null
      ? 'without --sha256 the two files cannot be compared: the hash of the new one is unknown'
      : 'it is a different file';
  return pullError('model_exists', `A model ${bareName(file)} exists already; ${why}.`);
}

function bareName(file: string): string {
  return file.replace(/\.gguf$/, '');
}
