import { extname } from 'node:path';
import {
  type Excess,
  ForeignWork,
  PROCESS_BYTES as WORKER_BYTES,
} from '../../async/foreign-work.ts';
import { errors, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { filesOfModel, type ModelShape, PROCESS_BYTES, weightsOf } from '../../models/index.ts';
import { type LoadGuard, shapeIn } from './load-guard.ts';
import type { ModelFile } from './model-files.ts';
import { type ServerSpec, serverFiles } from './servers/server-process.ts';

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

export interface LoadCheckOptions {
  /** Path of the built-in model. It needs no check. */
  built_in: string;
  limits: Pick<Limits, 'model_inspect_ms' | 'model_header_bytes'>;
}

/**
 * Call it before each load: the engine loads a file only after the strict check of its header.
 * Returns the numbers that determine the memory of the model, with those of its draft model. Throws
 * model_invalid, model_quarantined, descriptors_exhausted.
 */
export async function admit(
  model: ModelFile,
  guard: LoadGuard,
  options: LoadCheckOptions,
): Promise<ModelShape> {
  const { draft } = model;
  const shape = await admitFile(model, guard, options);
  return draft === undefined ? shape : { ...shape, draft: await admit(draft, guard, options) };
}

async function admitFile(
  model: ModelFile,
  guard: LoadGuard,
  { built_in, limits }: LoadCheckOptions,
): Promise<ModelShape> {
  const { path, server } = model;
  if (path === built_in) return { ...MINI, weights: await weightsOf(path) };
  const version = await versionOf(model);
  guard.refuse(model, version);
  const check = () => (server === undefined ? checkHeader(path, limits) : serverShape(server));
  const known = guard.find(path, version) ?? guard.learn(path, version, await check());
  return shapeIn(known, model);
}

/** Call it before each use of a loaded file. Throws model_quarantined. */
export async function readmit(model: ModelFile, guard: LoadGuard): Promise<void> {
  if (guard.hasRefused(model)) guard.refuse(model, await versionOf(model));
}

/** The shape of the built-in model. A test compares it with the file. */
export const MINI: Omit<ModelShape, 'weights'> = {
  layers: 4,
  width: 160,
  heads: 5,
  keys: 160,
  values: 160,
  vocabulary: 8430,
  context: 512,
};

/** The known needs of a server. It has no file whose header could be checked. */
async function serverShape(server: ServerSpec): Promise<CheckResult> {
  const { memory_bytes } = server;
  const bytes = memory_bytes === null ? (await serverFiles(server)).bytes : memory_bytes;
  const weights = memory_bytes === null ? bytes : Math.max(0, bytes - PROCESS_BYTES);
  return { problem: null, shape: { ...NO_SHAPE, weights } };
}

const NO_SHAPE = { layers: 0, width: 0, heads: 0, keys: 0, values: 0, vocabulary: 0, context: 0 };

async function versionOf({ path, server }: ModelFile): Promise<string> {
  if (server !== undefined) return (await serverFiles(server)).version;
  const unknown = (cause?: unknown) =>
    new SvcError('model_unknown', errors.model_unknown.meaning, { retryable: false, cause });
  const found = await filesOfModel(path).catch((cause: unknown) => {
    throw unknown(cause);
  });
  if (found === null) throw unknown();
  return found.version;
}

/**
 * Checks the header of a model file in a process with bounds on time and memory. The file may be
 * hostile. Throws descriptors_exhausted, which is not about the file.
 */
async function checkHeader(path: string, limits: LoadCheckOptions['limits']): Promise<CheckResult> {
  const work = new ForeignWork<CheckedFile, CheckResult>({
    entry: ENTRY,
    heap_bytes: HEAP_BYTES,
    memory_bytes: HEAP_BYTES + WORKER_BYTES + limits.model_header_bytes,
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
