import { GGMLFileQuantizationType, type GGUFParseOutput } from '@huggingface/gguf';

/** What a model file says about itself. */
export interface ModelInspection {
  /** Null: the file can be used as far as its head tells. */
  problem: string | null;
  quantization: string | null;
  parameters: number | null;
  context_length: number | null;
  capabilities: string[];
  digest: string | null;
  /** Plain values; a long list is told by its length. */
  metadata: Record<string, unknown>;
}

type Parsed = Pick<GGUFParseOutput, 'metadata' | 'tensorInfos' | 'tensorDataOffset'> & { parameterCount: number };

const KEYS_MAX = 1024;
const LIST_MAX = 16;
const TEXT_MAX = 65_536;

/** Reads what is of interest out of the head of a file. Throws when the file is shorter than its head says. */
export function describeModel({ metadata, tensorInfos, tensorDataOffset, parameterCount }: Parsed, size_bytes: number): Omit<ModelInspection, 'digest'> {
  for (const { dtype, shape, offset } of tensorInfos) {
    if (Number(tensorDataOffset + offset) + tensorBytes(dtype, shape) > size_bytes) throw new Error('the file is cut off');
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
    capabilities: typeof known['tokenizer.chat_template'] === 'string' ? ['chat', 'completion'] : ['completion'],
    metadata: Object.fromEntries(
      Object.entries(known)
        .slice(0, KEYS_MAX)
        .map(([key, value]) => [key.slice(0, 256), plain(value)]),
    ),
  };
}

export function invalidModel(problem: string): ModelInspection {
  return { problem, quantization: null, parameters: null, context_length: null, capabilities: [], digest: null, metadata: {} };
}

/** Bytes of one block of weights, by ggml's number of the type: [weights, bytes]. */
const BLOCKS: Record<number, readonly [number, number]> = {
  0: [1, 4],
  1: [1, 2],
  2: [32, 18],
  3: [32, 20],
  6: [32, 22],
  7: [32, 24],
  8: [32, 34],
  10: [256, 84],
  11: [256, 110],
  12: [256, 144],
  13: [256, 176],
  14: [256, 210],
  30: [1, 2],
};
/** No known type takes less than a bit for a weight. */
const LEAST: readonly [number, number] = [8, 1];

function tensorBytes(dtype: number, shape: readonly bigint[]): number {
  const [weights, bytes] = BLOCKS[dtype] ?? LEAST;
  return (shape.reduce((count, dimension) => count * Number(dimension), 1) / weights) * bytes;
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
  if (typeof value === 'string') return value.slice(0, TEXT_MAX);
  if (!Array.isArray(value)) return value;
  return value.length > LIST_MAX ? { count: value.length } : value.map(plain);
}
