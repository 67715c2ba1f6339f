import { dirname } from 'node:path/posix';
import type { SvcError } from '../../errors.ts';
import { pullError } from '../failure.ts';
import { isCompanion, isProjector, stemOf } from '../gguf/companions.ts';
import { firstPartOf, partsOf, withoutPart } from '../gguf/parts.ts';
import type { HubReference } from './reference.ts';
import { FIND } from './refusal.ts';

/** A file of a repository, as the hub lists it. */
export interface HubFile {
  path: string;
  size_bytes: number;
  /** Null: the hub stores the file in the repository itself. */
  sha256: string | null;
}

/** A model of a repository. Its path is that of the first part, its size the sum. */
export interface HubModel extends Pick<HubFile, 'path' | 'size_bytes'> {
  parts: readonly HubFile[];
}

export interface Choice {
  model: HubModel;
  /** The file with which llama-server reads images. Null: the repository has none. */
  projector: HubFile | null;
  /** Other models of the repository. Empty if the reference names the file. */
  others: string[];
}

/**
 * Chooses the model of a repository.
 *
 * 1. The named path, if it is there, with all parts of its model.
 * 2. The only model of the named quantization.
 * 3. Without either: the only Q4_K_M, else the smallest model.
 * 4. If several fit: none, and the error lists them.
 */
export function chooseFile(
  files: readonly HubFile[],
  { repo, path, quant }: Pick<HubReference, 'repo' | 'path' | 'quant'>,
): Choice {
  const all = files.filter((file) => /\.gguf$/i.test(file.path));
  const models = modelsIn(all);
  if (path !== null) return toChoice(all, findNamed(all, path, repo), []);
  if (quant !== null) return toChoice(all, theOne(models, quant, repo), []);
  if (models.length === 0)
    throw pullError('model_unknown', `${repo} has no GGUF file of a model.`, FIND);
  const usual = models.filter((model) => hasQuant(model.path, USUAL));
  if (usual.length > 1) throw choiceError(usual, repo, `has ${usual.length} models in ${USUAL}`);
  const model =
    usual[0] ??
    models.reduce((least, other) => (other.size_bytes < least.size_bytes ? other : least));
  const others = models.filter((other) => other !== model).map((other) => other.path);
  return toChoice(all, model, others.slice(0, LISTED_MAX));
}

/** The models, each with the parts that are there. */
export function modelsIn(files: readonly HubFile[]): HubModel[] {
  const sets = Map.groupBy(
    files.filter(({ path }) => /\.gguf$/i.test(path) && !isCompanion(path)),
    ({ path }) => firstPartOf(path),
  );
  return [...sets].map(([path, parts]) => modelOf(path, parts));
}

function modelOf(path: string, parts: readonly HubFile[]): HubModel {
  return { path, parts, size_bytes: parts.reduce((sum, { size_bytes }) => sum + size_bytes, 0) };
}

function toChoice(all: readonly HubFile[], model: HubModel, others: string[]): Choice {
  const there = new Map(model.parts.map((part) => [part.path, part]));
  const parts = partsOf(model.path).map((path) => {
    const part = there.get(path);
    if (part !== undefined) return part;
    throw pullError('model_invalid', `The repository has no ${path}, a part of the model.`, {
      hint: 'Choose another quantization, or another repository.',
    });
  });
  return { model: { ...model, parts }, projector: projectorIn(all, model.path), others };
}

/** Of several the one of the model's name, of its folder, in F16, and then the smallest. */
function projectorIn(all: readonly HubFile[], model: string): HubFile | null {
  const rank = ({ path }: HubFile) =>
    (stemOf(path) === stemOf(model) ? 0 : 4) +
    (dirname(path) === dirname(model) ? 0 : 2) +
    (hasQuant(path, 'F16') ? 0 : 1);
  const [best] = isCompanion(model)
    ? []
    : all
        .filter(({ path }) => isProjector(path))
        .sort((one, other) => rank(one) - rank(other) || one.size_bytes - other.size_bytes);
  return best ?? null;
}

const USUAL = 'Q4_K_M';
const LISTED_MAX = 20;

function findNamed(all: readonly HubFile[], path: string, repo: string): HubModel {
  if (!all.some((other) => other.path === path))
    throw choiceError(all, repo, `has no file ${JSON.stringify(path)}`);
  const first = firstPartOf(path);
  return modelOf(
    first,
    all.filter((other) => firstPartOf(other.path) === first),
  );
}

function theOne(models: readonly HubModel[], quant: string, repo: string): HubModel {
  const fitting = models.filter((model) => hasQuant(model.path, quant));
  if (fitting.length > 1)
    throw choiceError(fitting, repo, `has ${fitting.length} models in ${quant}`);
  if (fitting[0] !== undefined) return fitting[0];
  throw choiceError(models, repo, `has no model in ${quant}`);
}

/** Whether the quantization is a whole part of the name: `Q4_K` is not in `model-Q4_K_M.gguf`. */
function hasQuant(path: string, quant: string): boolean {
  const escaped = quant.replace(/[.-]/g, '\\$&');
  return new RegExp(`(^|[-._/])${escaped}([-./]|$)`, 'i').test(
    withoutPart(path).replace(/\.gguf$/i, ''),
  );
}

function choiceError(
  files: readonly Pick<HubFile, 'path'>[],
  repo: string,
  what: string,
): SvcError {
  if (files.length === 0)
    return pullError('model_unknown', `${repo} ${what}, and no GGUF file of a model.`, FIND);
  const listed = files.slice(0, LISTED_MAX).map((file) => file.path);
  const rest = files.length > listed.length ? `, and ${files.length - listed.length} more` : '';
  return pullError('model_unknown', `${repo} ${what}. It has: ${listed.join(', ')}${rest}.`, {
    hint: `Name the file: svc model pull hf:${repo}/${listed[0]}`,
  });
}
