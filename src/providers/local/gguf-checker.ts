import { extname } from 'node:path';
import { type Excess, ForeignWork, PROCESS_BYTES } from '../../async/foreign-work.ts';
import type { Limits } from '../../limits.ts';
import type { ModelShape } from '../../models/index.ts';

export interface CheckResult {
  /** Null: the header is valid. */
  problem: string | null;
  /** Null: it is invalid. The weights are those of this file. */
  shape: ModelShape | null;
}

export interface CheckedFile {
  path: string;
  header_bytes: number;
}

/**
 * Checks the header of a model file in a process with bounds on time and memory. The file may be
 * hostile. Throws descriptors_exhausted, which is not about the file.
 */
export async function checkHeader(
  path: string,
  limits: Pick<Limits, 'model_inspect_ms' | 'model_header_bytes'>,
): Promise<CheckResult> {
  const work = new ForeignWork<CheckedFile, CheckResult>({
    entry: ENTRY,
    heap_bytes: HEAP_BYTES,
    memory_bytes: HEAP_BYTES + PROCESS_BYTES + limits.model_header_bytes,
    places: 1,
    idle_ms: 0,
  });
  const file = { path, header_bytes: limits.model_header_bytes };
  const { answer, excess } = await work.ask(file, { ms: limits.model_inspect_ms });
  return answer ?? { problem: `The engine cannot load the file: ${EXCESS[excess]}.`, shape: null };
}

const EXCESS: Record<Excess, string> = {
  time: 'reading its header takes too long',
  memory: 'reading its header takes too much memory',
  crash: 'reading its header was interrupted',
};
const HEAP_BYTES = 256 * 1024 * 1024;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./gguf-worker${extname(import.meta.url)}`, import.meta.url);
