import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { asExhausted } from '../../descriptors.ts';
import type { Limits } from '../../limits.ts';
import type { ModelShape } from '../../models/memory-needs.ts';

export interface CheckResult {
  /** Null: the header is valid. */
  problem: string | null;
  /** Null: it is invalid. The weights are those of this file. */
  shape: ModelShape | null;
}

/**
 * Checks the header of a model file in a thread with bounds on time and memory. The file may be
 * hostile. Throws descriptors_exhausted, which is not about the file.
 */
export async function checkHeader(
  path: string,
  limits: Pick<Limits, 'model_inspect_ms' | 'model_header_bytes'>,
): Promise<CheckResult> {
  const { promise, resolve, reject } = Promise.withResolvers<CheckResult>();
  const worker = new Worker(ENTRY, {
    name: 'svc-model-check',
    workerData: { path, header_bytes: limits.model_header_bytes },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  const end = (why: string) =>
    resolve({ problem: `The engine cannot load the file: ${why}.`, shape: null });
  const timer = setTimeout(() => end('reading its header takes too long'), limits.model_inspect_ms);
  worker.on('message', resolve);
  worker.on('error', (error) => {
    const exhausted = asExhausted(error);
    if (exhausted === null) end('reading its header takes too much memory');
    else reject(exhausted);
  });
  worker.on('exit', () => end('reading its header was interrupted'));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}

const HEAP_MB = 256;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./gguf-worker${extname(import.meta.url)}`, import.meta.url);
