import {
  type Entries,
  FILE_TYPES,
  type GgufHeader,
  invalidError,
  type ModelShape,
  otherKindOf,
  shapeOf,
} from '../../models/index.ts';

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
  /** The numbers that determine its memory. */
  shape: ModelShape | null;
  /** The template that the configuration names in place of that of the file. */
  template?: string;
  /** Why a chat template is not used, and its replacement. */
  template_problem?: string;
  /** Why the draft model cannot guess its tokens. Null: it can. Absent: not compared. */
  draft_problem?: string | null;
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

/** The description of one file. `metadata` is null unless it was requested. */
export interface ModelDescription extends ModelInspection {
  metadata: ModelMetadata | null;
}

/** The features of the prompt of a model, in a form that svc reads. */
export interface TemplateUse {
  tools: boolean;
  thinking: boolean;
}

const LIST_MAX = 16;
const TEXT_MAX = 65_536;
const PROBLEM_MAX = 240;

/**
 * The values of a model in the headers of its files, which have so many bytes. Throws SvcError for
 * a file that is not a model. Only the process that reads headers knows the `architectures`.
 */
export function inspectModel(
  headers: readonly [GgufHeader, ...GgufHeader[]],
  weights: number,
  architectures: ReadonlySet<unknown>,
  template: TemplateUse | null,
): Omit<ModelInspection, 'digest' | 'template' | 'template_problem'> {
  const [first] = headers;
  const { architecture, entries } = first;
  const other = otherKindOf(first);
  if (other !== null) throw invalidError(other);
  const tensors = headers.flatMap((header) => header.tensors);
  const file_type = entries.value('general.file_type');
  return {
    problem: null,
    shape: shapeOf(first, weights),
    architecture,
    supported: architectures.has(architecture),
    quantization: FILE_TYPES[Number(file_type ?? -1)] ?? null,
    parameters: tensors.reduce((sum, { elements }) => sum + elements, 0),
    context_length: entries.number(`${architecture}.context_length`) || null,
    capabilities: tensors.some(({ name }) => RANKER.test(name))
      ? ['reranking']
      : capabilitiesOf(first, template),
  };
}

/**
 * The capabilities of a model in the engine, from its file. The engine reads no images, so no model
 * has vision here.
 */
function capabilitiesOf(
  { architecture, entries }: GgufHeader,
  template: TemplateUse | null,
): string[] {
  const pooling = entries.value(`${architecture}.pooling_type`);
  if (pooling === RANKS) return ['reranking'];
  // A model that reads a text in both directions has no next token.
  if (pooling !== undefined || entries.value(`${architecture}.attention.causal`) === false)
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

/** The entries in the order of the file, without those that exceed the bound. */
export function plainMetadata(entries: Entries, bytesMax: number): ModelMetadata {
  const { keys } = entries;
  const kept: [string, unknown][] = [];
  let bytes = 0;
  for (const key of keys) {
    const count = entries.count(key) ?? 0;
    const value = count > LIST_MAX ? { count } : toPlain(entries.value(key));
    const entry: [string, unknown] = [key.slice(0, 256), value];
    const size = Buffer.byteLength(JSON.stringify(entry));
    if (bytes + size > bytesMax) continue;
    bytes += size;
    kept.push(entry);
  }
  return { metadata: Object.fromEntries(kept), metadata_left_out: keys.length - kept.length };
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

function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (typeof value !== 'string' || value.length <= TEXT_MAX) return value;
  return `${value.slice(0, TEXT_MAX - 1).toWellFormed()}…`;
}

/** A request to the process that inspects. */
export interface Question {
  path: string;
  size_bytes: number;
  /** Most bytes of the header of a file. */
  header_bytes: number;
  /** Templates that the configuration names. */
  templates: readonly string[];
  /** The file of a model that is to guess its tokens. Null: none. */
  draft: string | null;
  /** Whether the template is rendered. */
  renders: boolean;
  /** Bound of the returned metadata. Null: none. */
  metadata_bytes: number | null;
}

/** A smaller model is hashed at once. */
export const HASHED_BYTES_MAX = 8 * 1024 * 1024;
