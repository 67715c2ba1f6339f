import { GGMLFileQuantizationType, type GGUFParseOutput } from '@huggingface/gguf';
import { tensorBytes } from '../../models/gguf/tensors.ts';

/** What a list of models says of a file: a few short values, so that many files cost little. */
export interface ModelInspection {
  /** Null: the file can be used as far as its head tells. */
  problem: string | null;
  quantization: string | null;
  parameters: number | null;
  context_length: number | null;
  capabilities: string[];
  digest: string | null;
}

/** The metadata of one file, in plain values. A long list is given by its length, a long text by its beginning. */
export interface ModelMetadata {
  metadata: Record<string, unknown>;
  /** Entries of the file that are not in `metadata`: together they would be too large. */
  metadata_left_out: number;
}

/** A whole answer about one file; `metadata` is there when it was asked for. */
export interface ModelDescription extends ModelInspection {
  metadata: ModelMetadata | null;
}

type Parsed = Pick<GGUFParseOutput, 'metadata' | 'tensorInfos' | 'tensorDataOffset'> & {
  parameterCount: number;
};

const LIST_MAX = 16;
const TEXT_MAX = 65_536;
const PROBLEM_MAX = 240;

/** Reads what is of interest out of the head of a file. Throws when the file is shorter than its head says. */
export function inspectModel(
  { metadata, tensorInfos, tensorDataOffset, parameterCount }: Parsed,
  size_bytes: number,
): Omit<ModelInspection, 'digest'> {
  for (const { dtype, shape, offset } of tensorInfos) {
    const elements = shape.reduce((count, dimension) => count * Number(dimension), 1);
    if (Number(tensorDataOffset + offset) + tensorBytes(dtype, elements) > size_bytes)
      throw new Error('the file is cut off');
  }
  if (tensorInfos.length === 0) throw new Error('the file holds no weights');
  const known: Record<string, unknown> = { ...metadata };
  const architecture = String(known['general.architecture'] ?? '');
  const several = typeof known['split.count'] === 'number' && known['split.count'] > 1;
  return {
    problem: null,
    quantization: nameOf(known['general.file_type']),
    parameters: several ? null : parameterCount,
    context_length: wholeOrNull(known[`${architecture}.context_length`]),
    capabilities:
      typeof known['tokenizer.chat_template'] === 'string'
        ? ['chat', 'completion']
        : ['completion'],
  };
}

/** The entries in the order of the file, as far as they fit the bound together; an entry that does not fit is left out. */
export function plainMetadata(metadata: object, bytes_max: number): ModelMetadata {
  const entries = Object.entries(metadata);
  const kept: [string, unknown][] = [];
  let bytes = 0;
  for (const [key, value] of entries) {
    const entry: [string, unknown] = [key.slice(0, 256), plain(value)];
    const size = Buffer.byteLength(JSON.stringify(entry));
    if (bytes + size > bytes_max) continue;
    bytes += size;
    kept.push(entry);
  }
  return { metadata: Object.fromEntries(kept), metadata_left_out: entries.length - kept.length };
}

export function invalidModel(problem: string): ModelDescription {
  const unknown = {
    quantization: null,
    parameters: null,
    context_length: null,
    capabilities: [],
    digest: null,
    metadata: null,
  };
  return { problem: problem.slice(0, PROBLEM_MAX), ...unknown };
}

function nameOf(file_type: unknown): string | null {
  return typeof file_type === 'number' ? (GGMLFileQuantizationType[file_type] ?? null) : null;
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
