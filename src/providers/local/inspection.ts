import type { GGUFParseOutput } from '@huggingface/gguf';
import { otherKindOf } from '../../models/gguf/header.ts';
import { tensorBytes } from '../../models/gguf/tensors.ts';
import { type ModelShape, shapeOf } from '../../models/memory-needs.ts';

/**
 * The values of a model file in a list of models. They are small, so that many files fit in memory.
 */
export interface ModelInspection {
  /** Null: the header is valid. */
  problem: string | null;
  architecture: string | null;
  /** Whether the library of the engine names the architecture. */
  supported: boolean;
  quantization: string | null;
  parameters: number | null;
  context_length: number | null;
  capabilities: string[];
  digest: string | null;
  /** What its memory depends on. */
  shape: ModelShape | null;
  /** What the configuration names in place of the template of the file. */
  template?: string;
  /** Why a chat template is not used, and what is used instead. */
  template_problem?: string;
}

/**
 * The metadata of one file as JSON values. A long list becomes its length, a long text its
 * beginning.
 */
export interface ModelMetadata {
  metadata: Record<string, unknown>;
  /** Number of entries that do not fit the bound. */
  metadata_left_out: number;
}

/** The description of one file. `metadata` is null unless it was asked for. */
export interface ModelDescription extends ModelInspection {
  metadata: ModelMetadata | null;
}

/** What a model is asked with does in a form that svc reads. */
export interface TemplateUse {
  tools: boolean;
  thinking: boolean;
}

/** The header of one file of a model. */
export type Parsed = Pick<GGUFParseOutput, 'metadata' | 'tensorInfos' | 'tensorDataOffset'> & {
  name: string;
  size_bytes: number;
  parameterCount: number;
};

const LIST_MAX = 16;
const TEXT_MAX = 65_536;
const PROBLEM_MAX = 240;

/**
 * Reads the header values of a model, of all its parts. Throws if a file is shorter than its header
 * says, is not that part, or is no model. Only the thread that reads headers loads the libraries,
 * so that thread passes the `names` of file types and the `architectures`.
 */
export function inspectModel(
  parts: readonly Parsed[],
  names: Readonly<Record<number, string>>,
  architectures: ReadonlySet<unknown>,
  template: TemplateUse | null,
): Omit<ModelInspection, 'digest' | 'template' | 'template_problem'> {
  for (const [index, part] of parts.entries()) checkPart(part, index, parts.length);
  if (parts.every(({ tensorInfos }) => tensorInfos.length === 0))
    throw new Error('the file holds no weights');
  const known: Record<string, unknown> = { ...parts[0]?.metadata };
  const architecture = String(known['general.architecture'] ?? '');
  const numbers = numbersIn(known);
  const other = otherKindOf({ architecture, type: String(known['general.type'] ?? ''), numbers });
  if (other !== null) throw new Error(other);
  const file_type = known['general.file_type'];
  const weights = parts.reduce((sum, { size_bytes }) => sum + size_bytes, 0);
  return {
    problem: null,
    shape: shapeOf({ architecture, numbers }, weights),
    architecture: architecture === '' ? null : architecture,
    supported: architectures.has(architecture),
    quantization: typeof file_type === 'number' ? (names[file_type] ?? null) : null,
    parameters: parts.reduce((sum, { parameterCount }) => sum + parameterCount, 0),
    context_length: wholeOrNull(known[`${architecture}.context_length`]),
    capabilities: parts.some(({ tensorInfos }) => tensorInfos.some(({ name }) => RANKER.test(name)))
      ? ['reranking']
      : capabilitiesOf(known, architecture, template),
  };
}

/** The numbers of a header, as the strict check of it has them too. */
function numbersIn(known: Readonly<Record<string, unknown>>): Map<string, number> {
  return new Map(
    Object.entries(known).flatMap(([key, value]): [string, number][] => {
      const list = Array.isArray(value) ? value : null;
      const isShort = list !== null && list.length <= LAYERS_MAX && list.every(isNumber);
      const number = isShort ? Math.max(0, ...list.map(Number)) : (list?.length ?? value);
      return isNumber(number) ? [[key, Number(number)]] : [];
    }),
  );
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

/** A value of each layer is a short list. */
const LAYERS_MAX = 1024;

function checkPart(
  { metadata, tensorInfos, tensorDataOffset, name, size_bytes }: Parsed,
  index: number,
  count: number,
): void {
  for (const { dtype, shape, offset } of tensorInfos) {
    const elements = shape.reduce((product, dimension) => product * Number(dimension), 1);
    if (Number(tensorDataOffset + offset) + tensorBytes(dtype, elements) > size_bytes)
      throw new Error(count === 1 ? 'the file is cut off' : `the part ${name} is cut off`);
  }
  const { 'split.no': no = 0, 'split.count': of = 1 }: Record<string, unknown> = { ...metadata };
  if (Math.max(1, Number(of)) !== count || Number(no) !== index)
    throw new Error(`${name} is part ${Number(no) + 1} of ${of}, and its name says another place`);
}

/**
 * What the engine does with a model, as its file has it. The engine reads no images, so no model
 * has vision here.
 */
function capabilitiesOf(
  known: Readonly<Record<string, unknown>>,
  architecture: string,
  template: TemplateUse | null,
): string[] {
  const pooling = known[`${architecture}.pooling_type`];
  if (pooling === RANKS) return ['reranking'];
  // A model that reads a text in both directions has no next token.
  if (pooling !== undefined || known[`${architecture}.attention.causal`] === false)
    return ['embedding'];
  if (template === null) return ['completion'];
  return [
    'chat',
    'completion',
    ...(template.tools ? ['tools'] : []),
    ...(template.thinking ? ['thinking'] : []),
  ];
}

/** The pooling type of a model that scores a text for a question. */
const RANKS = 4;
/** The weights that make the score. */
export const RANKER = /^cls\.(output\.)?weight$/;

/** Converts the entries in the order of the file. Skips an entry that exceeds the bound. */
export function plainMetadata(metadata: object, bytesMax: number): ModelMetadata {
  const entries = Object.entries(metadata);
  const kept: [string, unknown][] = [];
  let bytes = 0;
  for (const [key, value] of entries) {
    const entry: [string, unknown] = [key.slice(0, 256), plain(value)];
    const size = Buffer.byteLength(JSON.stringify(entry));
    if (bytes + size > bytesMax) continue;
    bytes += size;
    kept.push(entry);
  }
  return { metadata: Object.fromEntries(kept), metadata_left_out: entries.length - kept.length };
}

export function invalidModel(problem: string): ModelDescription {
  const unknown = {
    architecture: null,
    supported: false,
    quantization: null,
    parameters: null,
    context_length: null,
    capabilities: [],
    digest: null,
    shape: null,
    metadata: null,
  };
  return { problem: problem.slice(0, PROBLEM_MAX), ...unknown };
}

function wholeOrNull(value: unknown): number | null {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number > 0 ? number : null;
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'string')
    return value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX - 1).toWellFormed()}…` : value;
  if (!Array.isArray(value)) return value;
  return value.length > LIST_MAX ? { count: value.length } : value.map(plain);
}
