import koffi from 'koffi';
import type { Functions, Pointer } from './abi.ts';

/** What a model file says of itself. */
export interface Header {
  /** A number, a text or a truth. Undefined: the file does not have it, or a list. */
  value(key: string): string | number | boolean | undefined;
  /** The type of each token. Empty: the file does not say. */
  readonly tokenTypes: Int32Array;
  /** Names of the weights. */
  readonly weights: readonly string[];
}

/** Types of values by their numbers in a file. A list has none here. */
const TYPES = [
  ...(['uint8', 'int8', 'uint16', 'int16', 'uint32', 'int32', 'float', 'bool'] as const),
  ...(['string', null, 'uint64', 'int64', 'double'] as const),
];
const WHOLE = TYPES.indexOf('int32');

/** Reads the header with llama.cpp. Null: it cannot. */
export function readHeader(c: Functions, path: string): Header | null {
  const file = c.gguf_init_from_file(path, { no_alloc: true, ctx: null });
  if (file === null) return null;
  try {
    const values = new Map<string, ReturnType<Header['value']>>();
    const count = c.gguf_get_n_kv(file);
    for (let at = 0; at < count; at += 1)
      values.set(c.gguf_get_key(file, at), valueAt(c, file, at));
    const weights = Array.from({ length: c.gguf_get_n_tensors(file) }, (_, at) =>
      c.gguf_get_tensor_name(file, at),
    );
    return { value: (key) => values.get(key), tokenTypes: typesOf(c, file), weights };
  } finally {
    c.gguf_free(file);
  }
}

function valueAt(c: Functions, file: Pointer, at: number): ReturnType<Header['value']> {
  const type = TYPES[c.gguf_get_kv_type(file, at)];
  if (type === 'string') return c.gguf_get_val_str(file, at);
  if (type == null) return undefined;
  const value: unknown = koffi.decode(c.gguf_get_val_data(file, at), type);
  return typeof value === 'boolean' ? value : Number(value);
}

function typesOf(c: Functions, file: Pointer): Int32Array {
  const at = c.gguf_find_key(file, 'tokenizer.ggml.token_type');
  if (at < 0 || c.gguf_get_arr_type(file, at) !== WHOLE) return new Int32Array();
  const count = c.gguf_get_arr_n(file, at);
  if (count === 0) return new Int32Array();
  return new Int32Array(koffi.view(c.gguf_get_arr_data(file, at), count * 4)).slice();
}
