import { statSync } from 'node:fs';
import { extname, isAbsolute } from 'node:path';
import { Worker } from 'node:worker_threads';
import { asExhausted } from '../../descriptors.ts';
import type { Limits } from '../../limits.ts';
import { invalidModel, type ModelDescription, type ModelInspection } from './inspection.ts';
import { type FileVersion, missingPart } from './model-files.ts';

/** A request to the thread. */
export interface Question {
  path: string;
  size_bytes: number;
  /** Templates that the configuration names. */
  templates: readonly string[];
  /** Bound of the returned metadata. Null: none. */
  metadata_bytes: number | null;
}

type InspectorLimits = Pick<Limits, 'model_inspect_ms' | 'local_models' | 'model_metadata_bytes'>;

/**
 * Reads the headers of model files in a thread, one file after the other.
 *
 * 1. A file that is unreadable, invalid or too slow counts as invalid.
 * 2. Results are cached by version of the file, for a bounded number of files. Metadata and a lack
 *    of descriptors are not cached.
 * 3. The thread lives while there is a file to read.
 */
export class Inspector {
  private readonly limits: InspectorLimits;
  private readonly found = new Map<string, Promise<ModelInspection>>();
  private worker: Worker | null = null;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;

  constructor(limits: InspectorLimits) {
    this.limits = limits;
  }

  inspect(file: FileVersion, templates: readonly string[] = []): Promise<ModelInspection> {
    const key = JSON.stringify([file.path, file.version, templates, templates.map(changedAt)]);
    const known = this.found.get(key);
    if (known !== undefined) return known;
    const inspection = this.enqueue(file, templates, null).then(({ metadata: _, ...rest }) => rest);
    this.found.set(key, inspection);
    void inspection.then(({ problem }) => isOfTheDaemon(problem) && this.found.delete(key));
    const [oldest] = this.found.keys();
    if (this.found.size > this.limits.local_models && oldest !== undefined)
      this.found.delete(oldest);
    return inspection;
  }

  /** Reads the file again, with its metadata. Never rejects. */
  describe(file: FileVersion, templates: readonly string[] = []): Promise<ModelDescription> {
    return this.enqueue(file, templates, this.limits.model_metadata_bytes);
  }

  private enqueue(
    { path, size_bytes, missing }: FileVersion,
    templates: readonly string[],
    metadata_bytes: number | null,
  ): Promise<ModelDescription> {
    if (missing !== null) return Promise.resolve(invalidModel(missingPart(missing)));
    const read = this.last.then(() => this.read({ path, size_bytes, templates, metadata_bytes }));
    this.last = read;
    this.waiting += 1;
    return read;
  }

  /** Never rejects. */
  private async read(question: Question): Promise<ModelDescription> {
    this.worker ??= new Worker(ENTRY, {
      name: 'svc-models',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    });
    const worker = this.worker;
    const inspection = await this.ask(worker, question);
    this.waiting -= 1;
    if (inspection.problem !== null || this.waiting === 0) await this.endWorker(worker);
    return inspection;
  }

  private async ask(worker: Worker, question: Question): Promise<ModelDescription> {
    const { promise, resolve } = Promise.withResolvers<ModelDescription>();
    const end = (problem: string) => resolve(invalidModel(problem));
    let timer = setTimeout(() => end(NOT_STARTED), START_MS);
    const read = () => {
      clearTimeout(timer);
      timer = setTimeout(() => end('reading it took too long'), this.limits.model_inspect_ms);
    };
    const listeners = {
      message: (message: ModelDescription | typeof READING) =>
        message === READING ? read() : resolve(message),
      error: (error: unknown) =>
        end(asExhausted(error) === null ? 'reading it needed too much memory' : NOT_OPENED),
      exit: () => end('reading it was interrupted'),
    };
    for (const [event, listener] of Object.entries(listeners)) worker.on(event, listener);
    worker.postMessage(question);
    const inspection = await promise;
    for (const [event, listener] of Object.entries(listeners)) worker.off(event, listener);
    clearTimeout(timer);
    return inspection;
  }

  private async endWorker(worker: Worker): Promise<void> {
    this.worker = null;
    worker.on('error', () => {});
    await worker.terminate();
  }
}

/** When a file last changed. Null: it cannot be read, or is none. */
function changedAt(path: string): number | null {
  try {
    return isAbsolute(path) ? statSync(path).mtimeMs : null;
  } catch {
    return null;
  }
}

/** A lack of descriptors and a slow machine are not about the file: the next read may succeed. */
function isOfTheDaemon(problem: string | null): boolean {
  return (
    problem !== null &&
    (problem === NOT_OPENED || problem === NOT_STARTED || /^E[MN]FILE\b/.test(problem))
  );
}

/** The thread sends it when it starts a file, so that its own start does not count. */
export const READING = 'reading';
/** For the thread to start on a busy machine. */
const START_MS = 60_000;
const NOT_STARTED = 'the daemon has no time to read it now';

const NOT_OPENED = 'the daemon can open no more files';
/** A thread that needs more is ended, and the file counts as invalid. */
const HEAP_MB = 512;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./inspect-worker${extname(import.meta.url)}`, import.meta.url);
