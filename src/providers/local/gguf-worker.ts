import { parentPort, workerData } from 'node:worker_threads';
import { asExhausted } from '../../descriptors.ts';
import { checkGguf } from '../../models/gguf/check.ts';
import { invalid, otherKindOf } from '../../models/gguf/header.ts';
import { shapeOf, weightsOf } from '../../models/memory-needs.ts';
import type { CheckResult } from './gguf-checker.ts';

/** Thread that checks the header of one model file as strictly as that of a download. */
const { path, header_bytes } = workerData as { path: string; header_bytes: number };
const checked = await check().catch((error: Error): CheckResult => {
  const exhausted = asExhausted(error);
  // As an error of the thread it is not about the file.
  if (exhausted !== null) throw error;
  return { problem: error.message, shape: null };
});
parentPort?.postMessage(checked);

async function check(): Promise<CheckResult> {
  const header = await checkGguf(path, header_bytes);
  const other = otherKindOf(header);
  if (other !== null) throw invalid(other);
  return { problem: null, shape: shapeOf(header, await weightsOf(path)) };
}
