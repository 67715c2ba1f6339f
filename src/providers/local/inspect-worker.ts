import { parentPort } from 'node:worker_threads';
import { GGMLFileQuantizationType, gguf } from '@huggingface/gguf';
import { inspectModel, invalidModel, type ModelDescription, plainMetadata } from './inspection.ts';
import type { Question, READING } from './inspector.ts';
import { HASHED_BYTES_MAX, sha256 } from './model-identity.ts';

/** Thread that reads headers of model files in order. A header may be large or hostile. */
parentPort?.on('message', async (question: Question) => {
  parentPort?.postMessage('reading' satisfies typeof READING);
  parentPort?.postMessage(
    await inspect(question).catch((error: Error) => invalidModel(error.message)),
  );
});

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
