import { statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { type Excess, ForeignWork, PROCESS_BYTES } from '../../async/foreign-work.ts';
import { setNewest } from '../../async/newest.ts';
import {
  INSPECTION,
  invalidModel,
  type ModelDescription,
  type ModelInspection,
  type Question,
} from '../../engine/index.ts';
import { hasCode } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { type FileVersion, missingPart } from './model-files.ts';

type InspectorLimits = Pick<
  Limits,
  'model_inspect_ms' | 'model_header_bytes' | 'local_models' | 'model_metadata_bytes'
>;

/** The files that a model is used with, as the configuration names them. */
type UsedWith = Pick<Question, 'templates' | 'draft'>;

/**
 * Reads the headers of model files in another process, one file after the other.
 *
 * 1. A file that is unreadable, invalid or too slow counts as invalid.
 * 2. Results are cached by version of the file, for a bounded number of files. Metadata and a lack
 *    of descriptors are not cached.
 * 3. The process lives while there is a file to read.
 */
export class Inspector {
  private readonly limits: InspectorLimits;
  private readonly found = new Map<string, Promise<ModelInspection>>();
  private readonly work = new ForeignWork<Question, ModelDescription>({
    entry: INSPECTION,
    heap_bytes: HEAP_BYTES,
    memory_bytes: HEAP_BYTES + PROCESS_BYTES,
    places: 1,
    idle_ms: IDLE_MS,
  });

  constructor(limits: InspectorLimits) {
    this.limits = limits;
  }

  inspect(file: FileVersion, templates: readonly string[] = []): Promise<ModelInspection> {
    const key = JSON.stringify([file.path, file.version, templates, templates.map(changedAt)]);
    const known = this.found.get(key);
    if (known !== undefined) return known;
    const asked = this.enqueue(file, { templates, draft: null }, null);
    const inspection = asked.then(({ metadata: _, ...rest }) => rest);
    setNewest(this.found, key, inspection, this.limits.local_models);
    void inspection.then(({ problem }) => isOfTheDaemon(problem) && this.found.delete(key));
    return inspection;
  }

  /** Reads the file again, with its metadata and its draft model. Never rejects. */
  describe(
    file: FileVersion,
    templates: readonly string[] = [],
    draft: string | null = null,
  ): Promise<ModelDescription> {
    return this.enqueue(file, { templates, draft }, this.limits.model_metadata_bytes);
  }

  /** Never rejects. */
  private async enqueue(
    { path, size_bytes, missing }: FileVersion,
    used: UsedWith,
    metadata_bytes: number | null,
  ): Promise<ModelDescription> {
    if (missing !== null) return invalidModel(missingPart(missing));
    try {
      const { model_header_bytes: header_bytes } = this.limits;
      const question = { path, size_bytes, header_bytes, ...used, metadata_bytes };
      const ask = (renders: boolean) =>
        this.work.ask({ ...question, renders }, { ms: this.limits.model_inspect_ms });
      const { answer, excess } = await ask(true);
      if (excess === undefined) return answer;
      // A failure of the template must not count against the rest of the file.
      const rest = await ask(false);
      if (rest.excess !== undefined) return invalidModel(EXCESS[rest.excess]);
      return { ...rest.answer, template_problem: TEMPLATE_EXCESS[excess] };
    } catch (error) {
      return invalidModel(hasCode(error, 'descriptors_exhausted') ? NOT_OPENED : NOT_STARTED);
    }
  }
}

/** When a file last changed. Null: it cannot be read, or is not a file. */
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

const EXCESS: Record<Excess, string> = {
  time: 'reading it took too long',
  memory: 'reading it needed too much memory',
  crash: 'reading it was interrupted',
};
const TEMPLATE_EXCESS: Record<Excess, string> = {
  time: 'took too long to render',
  memory: 'needed too much memory to render',
  crash: 'ended the process that rendered it',
};
const NOT_STARTED = 'the daemon has no time to read it now';
const NOT_OPENED = 'the daemon can open no more files';
/** A process that needs more is ended, and the file counts as invalid. */
const HEAP_BYTES = 512 * 1024 * 1024;
/** From one file to the next. */
const IDLE_MS = 1000;
