import type { SvcError } from '../../errors.ts';
import { pullError } from '../failure.ts';
import type { HubReference } from './reference.ts';
import { FIND } from './refusal.ts';

/** A file of a repository, as the hub lists it. */
export interface HubFile {
  path: string;
  size_bytes: number;
  /** Null: the hub stores the file in the repository itself. */
  sha256: string | null;
}

export interface Choice {
  file: HubFile;
  /** Other models of the repository. Empty if the reference names the file. */
  others: string[];
}

/**
 * Chooses the file of a repository.
 *
 * 1. The named path, if it is there and is a whole model.
 * 2. The only file of the named quantization.
 * 3. Without either: the only Q4_K_M, else the smallest model.
 * 4. If several fit: none, and the error lists them.
 */
export function chooseFile(
  files: readonly HubFile[],
  { repo, path, quant }: Pick<HubReference, 'repo' | 'path' | 'quant'>,
): Choice {
  const all = files.filter((file) => /\.gguf$/i.test(file.path));
  const models = modelsIn(all);
  if (path !== null) return { file: named(all, path, repo), others: [] };
  if (quant !== null) return { file: theOne(all, models, quant, repo), others: [] };
  if (models.length === 0) throw nothing(all, repo);
  const usual = models.filter((file) => hasQuant(file.path, USUAL));
  if (usual.length > 1) throw unsure(usual, repo, `has ${usual.length} models in ${USUAL}`);
  const file =
    usual[0] ??
    models.reduce((least, other) => (other.size_bytes < least.size_bytes ? other : least));
  return {
    file,
    others: models
      .filter((other) => other !== file)
      .map((other) => other.path)
      .slice(0, LISTED_MAX),
  };
}

/** The files that are a whole model each. */
export function modelsIn(files: readonly HubFile[]): HubFile[] {
  return files.filter(({ path }) => /\.gguf$/i.test(path) && !isPart(path) && !isCompanion(path));
}

const USUAL = 'Q4_K_M';
const LISTED_MAX = 20;

function named(all: readonly HubFile[], path: string, repo: string): HubFile {
  const file = all.find((other) => other.path === path);
  if (file === undefined) throw unsure(all, repo, `has no file ${JSON.stringify(path)}`);
  if (isPart(path)) throw split(path);
  return file;
}

function theOne(
  all: readonly HubFile[],
  models: readonly HubFile[],
  quant: string,
  repo: string,
): HubFile {
  const fitting = models.filter((file) => hasQuant(file.path, quant));
  if (fitting.length > 1) throw unsure(fitting, repo, `has ${fitting.length} models in ${quant}`);
  if (fitting[0] !== undefined) return fitting[0];
  const part = all.find((file) => isPart(file.path) && hasQuant(file.path, quant));
  throw part === undefined ? unsure(models, repo, `has no model in ${quant}`) : split(part.path);
}

/** Whether the quantization is a whole part of the name: `Q4_K` is not in `model-Q4_K_M.gguf`. */
function hasQuant(path: string, quant: string): boolean {
  const escaped = quant.replace(/[.-]/g, '\\$&');
  return new RegExp(`(^|[-._/])${escaped}([-./]|$)`, 'i').test(path.replace(/\.gguf$/i, ''));
}

/** `-00001-of-00003.gguf` */
function isPart(path: string): boolean {
  return /-\d{5}-of-\d{5}\.gguf$/i.test(path);
}

/** Vision parts, importance matrices and adapters are GGUF files without a text model. */
function isCompanion(path: string): boolean {
  return /(^|[-._/])(mmproj|imatrix|lora|adapter)([-._/]|$)/i.test(path);
}

export function split(path: string): SvcError {
  return pullError(
    'model_invalid',
    `${path} is one part of a split model, which svc does not download. ` +
      'Choose a quantization that is one file. Or download all parts with another program, and ' +
      'take one: svc model import <file>.',
  );
}

function nothing(all: readonly HubFile[], repo: string): SvcError {
  const part = all.find((file) => isPart(file.path));
  return part === undefined
    ? pullError('model_unknown', `${repo} has no GGUF file of a model.`, FIND)
    : split(part.path);
}

function unsure(files: readonly HubFile[], repo: string, what: string): SvcError {
  if (files.length === 0)
    return pullError('model_unknown', `${repo} ${what}, and no GGUF file of a model.`, FIND);
  const listed = files.slice(0, LISTED_MAX).map((file) => file.path);
  const rest = files.length > listed.length ? `, and ${files.length - listed.length} more` : '';
  return pullError('model_unknown', `${repo} ${what}. It has: ${listed.join(', ')}${rest}.`, {
    hint: `Name the file: svc model pull hf:${repo}/${listed[0]}`,
  });
}
