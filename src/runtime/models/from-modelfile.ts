import { isAbsolute, resolve } from 'node:path';
import { asSvcError } from '../../errors.ts';
import { fault, type Modelfile, readModelfile } from './modelfile.ts';
import type { MadeModel, Models } from './models.ts';

export interface ModelfileInput {
  name: string;
  /** Its text. */
  modelfile: string;
  /** Where its relative paths begin. Null: it must have none. */
  folder: string | null;
}

/** Throws the errors of `create`, with the line of the file that they are about. */
export async function createFromModelfile(
  models: Pick<Models, 'create'>,
  { name, modelfile, folder }: ModelfileInput,
): Promise<MadeModel> {
  const { from, preset, lines } = readModelfile(modelfile);
  const resolvePath = (path: string, instruction: string) => {
    if (isAbsolute(path)) return path;
    const line = lines.get(instruction) ?? null;
    if (folder === null) throw fault(line, `${path} is relative to a folder that is not known.`);
    return resolve(folder, path);
  };
  const base = PATH.test(from) ? resolvePath(from, 'FROM') : from;
  const adapters = preset.adapters?.map((path) => resolvePath(path, 'ADAPTER'));
  try {
    return await models.create(name, base, {
      ...preset,
      ...(adapters === undefined ? {} : { adapters }),
    });
  } catch (thrown) {
    throw atLine(thrown, lines);
  }
}

/** A name of a model begins with no dot and does not end so. */
const PATH = /^(\.{0,2}[/\\]|[A-Za-z]:[/\\])|\.gguf$/i;

/** The instruction that each field of `create` comes from. */
const INSTRUCTIONS: Readonly<Record<string, string>> = {
  from: 'FROM',
  model: 'FROM',
  template: 'TEMPLATE',
  adapters: 'ADAPTER',
};

function atLine(thrown: unknown, lines: Modelfile['lines']): unknown {
  const error = asSvcError(thrown);
  const line = lines.get(INSTRUCTIONS[error.param ?? ''] ?? '');
  return line === undefined ? thrown : fault(line, error.message, error.hint, error.code);
}
