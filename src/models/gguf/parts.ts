import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';

/**
 * A split model is a set of files, `name-00001-of-00003.gguf` and so on, in one folder. llama.cpp
 * opens the first file and finds the others by their names.
 */
const PART = /-(\d{5})-of-(\d{5})(\.gguf)$/i;
/** A set with more files is not a split model. */
const PARTS_MAX = 999;

/** The files of the set that the path belongs to, in order. Another path is alone. */
export function partsOf(path: string): string[] {
  const [, part = '', of = ''] = PART.exec(path) ?? [];
  const count = Number(of);
  if (Number(part) < 1 || Number(part) > count || count > PARTS_MAX) return [path];
  return Array.from({ length: count }, (_, index) => partPath(withoutPart(path), index, count));
}

/** The path that names the whole set. */
export function firstPartOf(path: string): string {
  return partsOf(path)[0] ?? path;
}

/** Such as `name.gguf`. */
export function withoutPart(path: string): string {
  return path.replace(PART, '$3');
}

export function partPath(path: string, index: number, count: number): string {
  if (count === 1) return path;
  const digits = (number: number) => String(number).padStart(5, '0');
  return path.replace(/\.gguf$/i, (end) => `-${digits(index + 1)}-of-${digits(count)}${end}`);
}

/** A model on the disk, with all its parts. */
export interface FilesOfModel {
  size_bytes: number;
  modified_ms: number;
  parts: number;
  /** The name of the first part that is not there. */
  missing: string | null;
  /** Changes with each of the files. */
  version: string;
  /** Bytes that the file system gives them. */
  disk_bytes: number;
}

/** Null: there is no file of it. Throws the error of a file that cannot be reached. */
export async function filesOfModel(path: string): Promise<FilesOfModel | null> {
  const parts = partsOf(path);
  const all = await Promise.all(parts.map(statOrNull));
  const found = all.filter((one) => one !== null);
  if (found.length === 0) return null;
  const other = all.findIndex((one) => one !== null && !one.isFile());
  if (other !== -1) throw new NotAFile(parts[other]);
  const missing = all.indexOf(null);
  return {
    size_bytes: sum(found.map(({ size }) => size)),
    modified_ms: Math.max(...found.map(({ mtimeMs }) => mtimeMs)),
    parts: parts.length,
    missing: missing === -1 ? null : basename(parts[missing] ?? ''),
    version: versionOf(found),
    disk_bytes: sum(found.map(({ blocks }) => blocks * BLOCK_BYTES)),
  };
}

/** Runs record the one of a single file. */
function versionOf(files: readonly Stats[]): string {
  const versions = files.map(({ ino, size, mtimeMs }) => `${ino}-${size}-${mtimeMs}`);
  const [first = ''] = versions;
  return versions.length === 1
    ? first
    : createHash('sha256').update(versions.join(' ')).digest('hex');
}

/** A folder, a pipe or a device. */
export class NotAFile extends Error {}

/** Unit of `blocks` in the result of stat. */
const BLOCK_BYTES = 512;
const NOWHERE = new Set(['ENOENT', 'ENOTDIR', 'ERR_INVALID_ARG_VALUE', 'ENAMETOOLONG']);

function statOrNull(path: string): Promise<Stats | null> {
  return stat(path).catch((error: NodeJS.ErrnoException) => {
    if (NOWHERE.has(error.code ?? '')) return null;
    throw error;
  });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
