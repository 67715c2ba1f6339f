import type { SvcError } from '../errors.ts';
import type { PullContext } from './context.ts';
import { connectionError, pullError } from './failure.ts';
import { GGUF_MAGIC, isGguf } from './gguf/tensors.ts';
import type { Answer } from './hub/client.ts';
import type { PartialFile } from './partial-file.ts';
import type { Report } from './report.ts';
import { checkSpace } from './space.ts';
import { Throttle } from './throttle.ts';
import type { Transfer } from './transfer.ts';

export interface ReceiveOptions {
  context: PullContext;
  report: Report;
  signal: AbortSignal;
}

/**
 * Writes the response to the file, at the speed of the disk. Throws SvcError if it is not the
 * wanted file, or incomplete.
 */
export async function receive(
  { answer, identity }: Transfer,
  partial: PartialFile,
  { context, report, signal }: ReceiveOptions,
): Promise<void> {
  const { pull_bytes, pull_progress_ms } = context.limits;
  const most = Math.min(pull_bytes, identity.size_bytes ?? pull_bytes);
  const progress = new Throttle(pull_progress_ms, partial.bytes, async (bytes) => {
    await report.progressed(bytes);
    await checkSpace(context, 0);
  });
  let known = partial.bytes >= GGUF_MAGIC.length;
  try {
    for await (const chunk of chunks(answer, signal)) {
      if (partial.bytes + chunk.length > most)
        throw wrongFile(
          'pull_failed',
          `${answer.host} sends more than the accepted ${most} bytes.`,
        );
      await partial.append(chunk);
      if (!known) known = await isModel(partial, answer.host);
      await progress.update(partial.bytes);
    }
    const missing = (identity.size_bytes ?? 0) - partial.bytes;
    if (missing > 0)
      throw pullError(
        'pull_failed',
        `${answer.host} stopped ${missing} bytes before the end of the file.`,
        { retryable: true },
      );
  } catch (thrown) {
    if (!signal.aborted) await report.progressed(partial.bytes);
    throw thrown;
  } finally {
    progress.stop();
  }
}

/** Checks the first bytes, so that a wrong file is not downloaded to its end. */
async function isModel(partial: PartialFile, host: string): Promise<boolean> {
  if (partial.bytes < GGUF_MAGIC.length) return false;
  if (isGguf(await partial.head(GGUF_MAGIC.length))) return true;
  throw wrongFile('model_invalid', `The file from ${host} is not a GGUF file.`);
}

/**
 * The chunks of the response. Errors of the connection become pull errors; errors of the disk do
 * not.
 */
async function* chunks({ body, host }: Answer, signal: AbortSignal): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of body ?? []) {
      signal.throwIfAborted();
      yield chunk;
    }
  } catch (thrown) {
    throw signal.aborted ? thrown : connectionError(thrown, host);
  }
}

function wrongFile(code: 'pull_failed' | 'model_invalid', message: string): SvcError {
  return pullError(code, message, { discard: true });
}
