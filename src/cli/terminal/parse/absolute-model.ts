import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { SvcError } from '../../../errors.ts';

/**
 * The daemon has another working folder, so a path is made absolute. A bare name may be in the
 * models folder.
 */
export function absoluteModel(model: string): string {
  const isPath = /^\.{1,2}[\\/]/.test(model) || (model.endsWith('.gguf') && existsSync(model));
  if (!isPath) return model;
  const path = resolve(model);
  // The daemon says nothing about files, since others may ask it too.
  const problem = problemOf(path);
  if (problem === null) return path;
  throw new SvcError('model_invalid', `${path} ${problem}.`, { param: 'model' });
}

/** Why the file can be no model. Null: it can, or the daemon may know more. */
function problemOf(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return null;
  if (!found.isFile()) return 'is not a file';
  try {
    const file = openSync(path, 'r');
    const head = Buffer.alloc(4);
    readSync(file, head);
    closeSync(file);
    return head.toString('latin1') === 'GGUF' ? null : 'is not a GGUF file';
  } catch {
    return null;
  }
}
