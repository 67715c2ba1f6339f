import { anySignal } from '../async/signals.ts';
import { SvcError } from '../errors.ts';
import type { PullContext } from './context.ts';
import { connectionError, pullError } from './failure.ts';
import { GGUF_MAGIC, isGguf } from './gguf/tensors.ts';
import type { Answer } from './hub/client.ts';
import type { Source } from './hub/source.ts';
import type { PartialFile } from './partial-file.ts';
import { type Claim, Ranges } from './ranges.ts';
import type { Report } from './report.ts';
import { checkSpace } from './space.ts';
import { Throttle } from './throttle.ts';
import { openRange, type Transfer } from './transfer.ts';

export interface ReceiveOptions {
  source: Source;
  context: PullContext;
  report: Pick<Report, 'progressed'>;
  signal: AbortSignal;
}

/**
 * Writes the missing bytes to the file, at the speed of the disk. Throws SvcError if it is not the
 * wanted file, or incomplete.
 *
 * 1. The response is the first connection. If the server sends parts, other connections help it.
 * 2. A connection that helps may fail: the first one then gets its part. A disk may not.
 * 3. When this ends, all connections have ended.
 */
export async function receive(
  transfer: Transfer,
  partial: PartialFile,
  options: ReceiveOptions,
): Promise<void> {
  const receiver = new Receiver(transfer, partial, options);
  try {
    await receiver.receive();
  } catch (thrown) {
    if (!options.signal.aborted) await options.report.progressed(partial.bytes);
    throw thrown;
  } finally {
    receiver.progress.stop();
  }
}

class Receiver {
  readonly progress: Throttle;
  private readonly transfer: Transfer;
  private readonly partial: PartialFile;
  private readonly options: ReceiveOptions;
  private readonly ranges: Ranges;
  private readonly bytesMax: number;
  /** Aborted by the caller, or when one of the connections ends the others. */
  private readonly ending = new AbortController();
  private readonly signal: AbortSignal;
  private isKnown: boolean;
  private helpers: Promise<void>[] = [];

  constructor(transfer: Transfer, partial: PartialFile, options: ReceiveOptions) {
    const { pull_bytes, pull_progress_ms, pull_range_bytes } = options.context.limits;
    const size = transfer.identity.size_bytes;
    this.transfer = transfer;
    this.partial = partial;
    this.options = options;
    this.bytesMax = Math.min(pull_bytes, size ?? pull_bytes);
    this.signal = anySignal([options.signal, this.ending.signal]);
    this.isKnown = partial.offset >= GGUF_MAGIC.length;
    this.ranges = new Ranges({
      have: () => partial.parts,
      size: size ?? Number.POSITIVE_INFINITY,
      piece: Math.max(pull_range_bytes, Math.ceil((size ?? 0) / PIECES_MAX)),
      position: partial.offset,
    });
    this.progress = new Throttle(pull_progress_ms, partial.bytes, async (bytes) => {
      await options.report.progressed(bytes);
      await checkSpace(options.context, 0);
    });
  }

  async receive(): Promise<void> {
    if (this.isKnown) await this.startHelpers();
    try {
      await this.readFirst();
      await this.fetchRest();
      await Promise.all(this.helpers);
      // A helper may have left a part.
      await this.fetchRest();
    } catch (thrown) {
      this.ending.abort();
      const failed = (await Promise.allSettled(this.helpers)).find(
        ({ status }) => status === 'rejected',
      );
      throw failed?.status === 'rejected' && !this.options.signal.aborted ? failed.reason : thrown;
    }
    const missing = (this.transfer.identity.size_bytes ?? 0) - this.partial.bytes;
    if (missing > 0) throw cutOffError(this.transfer.answer.host, missing);
  }

  /** Only for a model, on a server that sends parts that are surely of the same file. */
  private async startHelpers(): Promise<void> {
    const { answer, identity } = this.transfer;
    const { pull_connections, pull_range_bytes } = this.options.context.limits;
    const sendsParts = answer.status === 206 || answer.headers.get('accept-ranges') === 'bytes';
    const missing = (identity.size_bytes ?? 0) - this.partial.bytes;
    const isSure = identity.etag !== null || identity.sha256 !== null;
    if (!sendsParts || !isSure || pull_connections < 2 || missing < 2 * pull_range_bytes) return;
    await this.partial.scatter();
    this.helpers = Array.from({ length: pull_connections - 1 }, () => this.help());
    // An error also ends the first connection, which then reports it.
    for (const helper of this.helpers) helper.catch(() => undefined);
  }

  private async readFirst(): Promise<void> {
    const { answer, identity } = this.transfer;
    const { ranges } = this;
    let at = this.partial.offset;
    let isRestElsewhere = false;
    for await (const chunk of chunks(answer, this.signal)) {
      const { end } = ranges;
      if (at + chunk.length > this.bytesMax && end >= this.bytesMax)
        throw wrongFile(
          'pull_failed',
          `${answer.host} sends more than the accepted ${this.bytesMax} bytes.`,
        );
      const bytes = chunk.subarray(0, Math.min(chunk.length, end - at));
      ranges.advance(at + bytes.length);
      await this.write(bytes, at);
      at += bytes.length;
      if (!this.isKnown) {
        this.isKnown = await isModel(this.partial, answer.host);
        if (this.isKnown) await this.startHelpers();
      }
      // The next byte is there, or another connection fetches it.
      isRestElsewhere =
        identity.size_bytes !== null && at >= ranges.end && ranges.end < identity.size_bytes;
      if (isRestElsewhere) break;
    }
    // A connection that fails now gives its part back, and this one has not been cut off by that.
    if (identity.size_bytes !== null && !isRestElsewhere && at < ranges.end)
      throw cutOffError(answer.host, identity.size_bytes - this.partial.bytes);
    ranges.advance(null);
  }

  /** Fetches part after part. Ends with the connection, but throws an error of the disk. */
  private async help(): Promise<void> {
    try {
      for (let claim = this.ranges.claim(); claim !== null; claim = this.ranges.claim())
        if ((await this.fetchClaim(claim)) === 0) return;
    } catch (thrown) {
      // The error of another connection ends this one.
      if (this.signal.aborted) return;
      if (thrown instanceof SvcError && thrown.code !== 'pull_failed') return;
      if (thrown instanceof SvcError && thrown.retryable) return;
      this.ending.abort();
      throw thrown;
    }
  }

  private async fetchRest(): Promise<void> {
    for (let claim = this.ranges.claim(); claim !== null; claim = this.ranges.claim())
      if ((await this.fetchClaim(claim)) === 0)
        throw cutOffError(this.transfer.answer.host, claim.to - claim.from);
  }

  /** Resolves with the number of fetched bytes. Releases the claim. */
  private async fetchClaim(claim: Claim): Promise<number> {
    const { source, context } = this.options;
    let at = claim.from;
    try {
      const answer = await openRange(source, this.transfer, claim, context.hubClient, this.signal);
      for await (const chunk of chunks(answer, this.signal)) {
        const bytes = chunk.subarray(0, Math.min(chunk.length, claim.to - at));
        await this.write(bytes, at);
        at += bytes.length;
        // Only a response that is read to its end leaves its connection for the next part.
        if (bytes.length < chunk.length) break;
      }
      return at - claim.from;
    } finally {
      this.ranges.release(claim);
    }
  }

  private async write(bytes: Uint8Array, at: number): Promise<void> {
    await this.partial.write(bytes, at);
    await this.progress.update(this.partial.bytes);
  }
}

/** Each part is a request to the hub, so a large file has larger parts. */
const PIECES_MAX = 256;

/** Checks the first bytes, so that a wrong file is not downloaded to its end. */
async function isModel(partial: PartialFile, host: string): Promise<boolean> {
  if (partial.offset < GGUF_MAGIC.length) return false;
  if (isGguf(await partial.head(GGUF_MAGIC.length))) return true;
  throw wrongFile('model_invalid', `The file from ${host} is not a GGUF file.`);
}

/**
 * The chunks of the response. Errors of the connection become pull errors; errors of the disk do
 * not.
 */
async function* chunks({ body, host }: Answer, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const reader = body?.getReader();
  if (reader === undefined) return;
  const end = () => void reader.cancel().catch(() => undefined);
  signal.addEventListener('abort', end);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal.throwIfAborted();
      if (done) return;
      yield value;
    }
  } catch (thrown) {
    throw signal.aborted ? thrown : connectionError(thrown, host);
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

function cutOffError(host: string, missing: number): SvcError {
  return pullError('pull_failed', `${host} stopped ${missing} bytes before the end of the file.`, {
    retryable: true,
  });
}

function wrongFile(code: 'pull_failed' | 'model_invalid', message: string): SvcError {
  return pullError(code, message, { discard: true });
}
