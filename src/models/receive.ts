import type { SvcError } from '../errors.ts';
import { brokenOff, pullError } from './failure.ts';
import { isGguf } from './gguf/check.ts';
import type { Answer } from './hub/client.ts';
import { Pace } from './pace.ts';
import type { PartialFile } from './partial-file.ts';
import type { Report } from './report.ts';
import { checkSpace } from './space.ts';
import type { Tools } from './tools.ts';
import type { Transfer } from './transfer.ts';

export interface ReceiveOptions {
  tools: Tools;
  report: Report;
  signal: AbortSignal;
}

/** Writes what comes, no faster than the disk takes it. Throws SvcError when that was not the file, or not all of it. */
export async function receive(
  { answer, identity }: Transfer,
  partial: PartialFile,
  { tools, report, signal }: ReceiveOptions,
): Promise<void> {
  const { pull_bytes, pull_progress_ms } = tools.limits;
  const most = Math.min(pull_bytes, identity.size_bytes ?? pull_bytes);
  const pace = new Pace(pull_progress_ms, partial.bytes, async (bytes) => {
    await report.progressed(bytes);
    await checkSpace(tools, 0);
  });
  let known = partial.bytes >= MAGIC_BYTES;
  try {
    for await (const chunk of chunks(answer, signal)) {
      if (partial.bytes + chunk.length > most)
        throw spoilt(
          'pull_failed',
          `${answer.host} sends more than the ${most} bytes that are taken.`,
        );
      await partial.append(chunk);
      if (!known) known = await isModel(partial, answer.host);
      await pace.at(partial.bytes);
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
    pace.stop();
  }
}

const MAGIC_BYTES = 4;

/** Once the first bytes are there: a file that is none is not fetched to its end. */
async function isModel(partial: PartialFile, host: string): Promise<boolean> {
  if (partial.bytes < MAGIC_BYTES) return false;
  if (isGguf(await partial.head(MAGIC_BYTES))) return true;
  throw spoilt('model_invalid', `What ${host} sends is not a GGUF file.`);
}

/** What comes, with what can go wrong on the way told apart from what can go wrong on the disk. */
async function* chunks({ body, host }: Answer, signal: AbortSignal): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of body ?? []) {
      signal.throwIfAborted();
      yield chunk;
    }
  } catch (thrown) {
    throw signal.aborted ? thrown : brokenOff(thrown, host);
  }
}

function spoilt(code: 'pull_failed' | 'model_invalid', message: string): SvcError {
  return pullError(code, message, { discard: true });
}
