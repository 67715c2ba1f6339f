import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { parentPort } from 'node:worker_threads';
import { GGMLFileQuantizationType, gguf } from '@huggingface/gguf';
import { inspectModel, invalidModel, type ModelDescription, plainMetadata } from './inspection.ts';
import type { Question, READING } from './inspector.ts';

/** Thread that reads headers of model files in order. A header may be large or hostile. */
parentPort?.on('message', async (question: Question) => {
  parentPort?.postMessage('reading' satisfies typeof READING);
  parentPort?.postMessage(
    await inspect(question).catch((error: Error) => invalidModel(error.message)),
  );
});

/** A smaller file is hashed at once. */
const HASHED_BYTES_MAX = 8 * 1024 * 1024;

async function inspect({ path, size_bytes, metadata_bytes }: Question): Promise<ModelDescription> {
  const parsed = await gguf(path, { allowLocalFile: true, computeParametersCount: true });
  if (parsed.tensorInfoByteRange[1] > size_bytes) throw new Error('the file is cut off');
  const inspection = {
    ...inspectModel(parsed, size_bytes, GGMLFileQuantizationType),
    digest: size_bytes <= HASHED_BYTES_MAX ? await sha256(path) : null,
  };
  return {
    ...inspection,
    metadata: metadata_bytes === null ? null : plainMetadata(parsed.metadata, metadata_bytes),
  };
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return `sha256:${hash.digest('hex')}`;
}
