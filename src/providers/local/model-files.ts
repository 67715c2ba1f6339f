import { constants } from 'node:fs';
import { access, open, readdir, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, sep } from 'node:path';
import { asExhausted } from '../../descriptors.ts';
import type { Adapter } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import {
  type FilesOfModel,
  filesOfModel,
  firstPartOf,
  GGUF_MAGIC,
  isCompanion,
  isGguf,
  isProjector,
  modelOfProjector,
  NotAFile,
  stemOf,
  withoutPart,
} from '../../models/index.ts';
import type { CreatedModel, PartialModel } from '../../ports/providers.ts';
import type { ServerSpec } from './servers/server-process.ts';
import type { ModelDefaults } from './stores/defaults.ts';

export interface ModelFile {
  /** `provider/name`. */
  id: string;
  name: string;
  /** Of a server: what names it among the engines. */
  path: string;
  /** The defaults of its program for fields that a request omits. */
  defaults?: ModelDefaults;
  server?: ServerSpec;
  /** A smaller model that guesses its tokens. Absent: none. */
  draft?: ModelFile;
  /** Scales of its adapters by id, where a request has other ones than usual. */
  scales?: readonly number[];
  /** The template or adapters of a model that is loaded in its own way. */
  created?: CreatedModel;
}

/** What of a model makes its load another one than that of its file alone. */
export function variantOf({ scales, created }: ModelFile): string {
  return scales === undefined && created === undefined ? '' : JSON.stringify([scales, created]);
}

/**
 * The model with adapters of these scales, by id. One that is not named has none, as at
 * llama-server. Throws capability_missing.
 */
export function withScales(
  model: ModelFile,
  lora: Readonly<Record<string, number>>,
  adapters: readonly Adapter[],
): ModelFile {
  const unknown = Object.keys(lora).find((id) => adapters[Number(id)] === undefined);
  if (unknown !== undefined)
    throw new SvcError(
      'capability_missing',
      `${model.name} has no adapter with the id ${unknown}: it has ${adapters.length}.`,
      { param: 'lora', hint: 'The setting model_adapters names the adapters of a model.' },
    );
  const scales = adapters.map((_, id) => lora[id] ?? 0);
  const isUsual = scales.every((scale, id) => scale === adapters[id]?.scale);
  return isUsual ? model : { ...model, scales };
}

const DEPTH_MAX = 6;

export function isModelFile(path: string): boolean {
  return /\.gguf$/i.test(path);
}

/**
 * The file beside a model with which llama-server reads images: the one of its name, or the only
 * one in a folder with one model. Null: neither is there.
 */
export async function projectorOf(path: string): Promise<string | null> {
  const names = (await readdir(dirname(path)).catch(() => [])).filter(isModelFile).sort();
  const projectors = names.filter(isProjector);
  const models = new Set(names.filter((name) => !isCompanion(name)).map(withoutPart));
  const found = projectors.find((name) => models.size === 1 || stemOf(name) === stemOf(path));
  return found === undefined ? null : join(dirname(path), found);
}

/** The models, and the files for images that belong to none. A download puts one beside a model. */
export function withoutProjectors<F extends { name: string }>(files: readonly F[]): F[] {
  const names = new Set(files.map(({ name }) => name));
  return files.filter(({ name }) => !names.has(modelOfProjector(name) ?? ''));
}

/**
 * Lists the model files of the folder, sorted, with bounds on number and depth. The first part
 * names a split model, also if it is missing. Throws descriptors_exhausted.
 */
export async function modelFilesIn(
  folder: string,
  filesMax: number,
  isWanted: (name: string) => boolean = isModelFile,
): Promise<string[]> {
  const found = new Set<string>();
  const walk = async (at: string, depth: number): Promise<void> => {
    const entries = await readdir(at, { withFileTypes: true }).catch((error: unknown) => {
      const exhausted = asExhausted(error);
      if (exhausted !== null) throw exhausted;
      return [];
    });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (found.size >= filesMax) return;
      const path = join(at, entry.name);
      if (entry.isDirectory() && depth < DEPTH_MAX) await walk(path, depth + 1);
      else if (!entry.isDirectory() && isWanted(entry.name)) found.add(firstPartOf(path));
    }
  };
  await walk(folder, 1);
  return [...found];
}

/** The name of a file: its path in the folder without the extension. Null: it is outside. */
export function nameIn(folder: string, path: string): string | null {
  const inside = relative(folder, path);
  if (inside === '' || inside.startsWith('..') || isAbsolute(inside)) return null;
  return inside
    .split(sep)
    .join('/')
    .replace(/\.gguf$/i, '');
}

/** The name of a split model has no part, unless that is the name of another file. */
export async function nameOfModel(folder: string, path: string): Promise<string | null> {
  const whole = withoutPart(path);
  const isTaken =
    whole !== path &&
    (await access(whole).then(
      () => true,
      () => false,
    ));
  return nameIn(folder, isTaken ? path : whole);
}

/** A model file and its other parts, as they are now. */
export interface FileVersion extends FilesOfModel {
  path: string;
}

/** Null: there is no such file. Throws model_invalid for anything but a readable file. */
export async function fileVersion(path: string): Promise<FileVersion | null> {
  const found = await filesOfModel(path).catch((error: NodeJS.ErrnoException) => {
    const why = error instanceof NotAFile ? 'is not a file' : `cannot be read (${error.code})`;
    throw new SvcError('model_invalid', `${path} ${why}.`, { cause: error, param: 'model' });
  });
  return found === null ? null : { path, ...found };
}

/**
 * Throws model_invalid unless all parts are there and the file begins like a GGUF file, and
 * descriptors_exhausted. Never blocks on a pipe.
 */
export async function refuseForeign({ path, missing }: FileVersion): Promise<void> {
  if (missing !== null)
    throw new SvcError('model_invalid', `${path} cannot be used: ${missingPart(missing)}.`, {
      param: 'model',
      hint: 'Put the missing part beside the other parts.',
    });
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch(
    (error: NodeJS.ErrnoException) => {
      throw (
        asExhausted(error) ??
        new SvcError('model_invalid', `${path} cannot be read (${error.code}).`, {
          cause: error,
          param: 'model',
        })
      );
    },
  );
  try {
    const { length } = GGUF_MAGIC;
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, 0);
    if (!isGguf(buffer))
      throw new SvcError('model_invalid', `${path} is not a GGUF file.`, { param: 'model' });
  } finally {
    await file.close();
  }
}

export function missingPart(name: string): string {
  return `the part ${name} is missing`;
}

/** The same file under another path, so that it is loaded once. */
export async function twinOf<F extends { path: string }>(
  path: string,
  files: readonly F[],
): Promise<F | null> {
  const place = await placeOf(path);
  for (const file of files) if (place !== null && (await placeOf(file.path)) === place) return file;
  return null;
}

/** Device and inode. Null: it cannot be read. */
function placeOf(path: string): Promise<string | null> {
  return stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev} ${ino}`,
    () => null,
  );
}

/** The parts of a model that a download left in these files. */
export interface Left extends PartialModel {
  paths: string[];
}

/** What downloads left in the folder: one for each model, with the files that belong to it. */
export async function partialsIn(folder: string, filesMax: number): Promise<Left[]> {
  const paths = await modelFilesIn(folder, filesMax, (name) => name.endsWith(PARTIAL));
  const named = paths.flatMap((path) => {
    const name = nameIn(folder, withoutPart(path.slice(0, -DRAFT.length)));
    return name === null ? [] : [{ path, name: modelOfProjector(name) ?? name }];
  });
  const found = await Promise.all(
    [...Map.groupBy(named, ({ name }) => name)].map(async ([name, files]) => {
      const paths = files.map(({ path }) => path);
      const versions = await Promise.all(paths.map((path) => fileVersion(path).catch(() => null)));
      const there = versions.filter((version) => version !== null);
      const size_bytes = there.reduce((sum, version) => sum + version.size_bytes, 0);
      const [path] = paths as [string, ...string[]];
      return there.length === 0 ? [] : [{ name, size_bytes, path, paths }];
    }),
  );
  return found.flat();
}

const DRAFT = '.partial';
const PARTIAL = `.gguf${DRAFT}`;
