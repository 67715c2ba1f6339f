import { parentPort, workerData } from 'node:worker_threads';
import { asExhausted } from '../../descriptors.ts';
import { checkGguf } from '../../models/gguf/check.ts';
import type { Checked } from './gguf-checker.ts';

/** The thread that reads the header of one model file as strictly as a fetched one is read, and says what is wrong with it. */
const { path, header_bytes } = workerData as { path: string; header_bytes: number };
const checked: Checked = await checkGguf(path, header_bytes).then(
  () => ({ problem: null }),
  (error: Error) => {
    const exhausted = asExhausted(error);
    // As an error of the thread it says nothing of the file.
    if (exhausted !== null) throw error;
    return { problem: error.message };
  },
);
parentPort?.postMessage(checked);
