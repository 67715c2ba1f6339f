import { constants } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, sep } from 'node:path';
import { asExhausted } from '../../descriptors.ts';
import { SvcError } from '../../errors.ts';
import { GGUF_MAGIC, isGguf } from '../../models/gguf/tensors.ts';
import type { PartialModel } from '../port.ts';
import type { FileVersion } from './inspector.ts';

const DEPTH_MAX = 6;
/** Later parts of a split model. The first part represents them. */
const LATER_PART = /-(?!00001)\d{5}-of-\d{5}\.gguf$/i;

export function isModelFile(path: string): boolean {
  return /\.gguf$/i.test(path);
}

export function isLaterPart(path: string): boolean {
  return LATER_PART.test(path);
}

/** Vision parts and adapters are GGUF files without a text model. */
export function isCompanion(name: string): boolean {
  return /(^|[-._])(mmproj|imatrix|lora|adapter)([-._]|$)/i.test(name);
}

/**
 * Lists the model files of the folder, sorted, with bounds on number and depth. Throws
 * descriptors_exhausted.
 */
export async function modelFilesIn(
  folder: string,
  filesMax: number,
  isWanted: (name: string) => boolean = (name) => isModelFile(name) && !isLaterPart(name),
): Promise<string[]> {
  const found: string[] = [];
  const walk = async (at: string, depth: number): Promise<void> => {
    const entries = await readdir(at, { withFileTypes: true }).catch((error: unknown) => {
      const exhausted = asExhausted(error);
      if (exhausted !== null) throw exhausted;
      return [];
    });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (found.length >= filesMax) return;
      const path = join(at, entry.name);
      if (entry.isDirectory() && depth < DEPTH_MAX) await walk(path, depth + 1);
      else if (!entry.isDirectory() && isWanted(entry.name)) found.push(path);
    }
  };
  await walk(folder, 1);
  return found;
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

/** Null: there is no such file. Throws model_invalid for anything but a readable file. */
export async function fileVersion(path: string): Promise<FileVersion | null> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (
      error.code === 'ENOENT' ||
      error.code === 'ENOTDIR' ||
      error.code === 'ERR_INVALID_ARG_VALUE' ||
      error.code === 'ENAMETOOLONG'
    )
      return null;
    throw new SvcError('model_invalid', `${path} cannot be read (${error.code}).`, {
      cause: error,
      param: 'model',
    });
  });
  if (found === null) return null;
  if (!found.isFile())
    throw new SvcError('model_invalid', `${path} is not a file.`, { param: 'model' });
  return { path, size_bytes: found.size, modified_ms: found.mtimeMs };
}

/**
 * Throws model_invalid unless the file begins like a GGUF file, and descriptors_exhausted. Never
 * blocks on a pipe.
 */
export async function refuseForeign(path: string): Promise<void> {
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

/** The one that is the same file under another path, so that it is loaded once. */
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

/** What downloads left in the folder. */
export async function partialsIn(folder: string, filesMax: number): Promise<PartialModel[]> {
  const paths = await modelFilesIn(folder, filesMax, (name) => name.endsWith('.gguf.partial'));
  const found = await Promise.all(
    paths.map(async (path) => {
      const version = await fileVersion(path).catch(() => null);
      const name = nameIn(folder, path.replace(/\.partial$/, ''));
      return version === null || name === null
        ? []
        : [{ name, size_bytes: version.size_bytes, path }];
    }),
  );
  return found.flat();
}
