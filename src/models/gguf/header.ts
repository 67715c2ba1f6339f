import type { SvcError } from '../../errors.ts';
import { pullError } from '../failure.ts';
import { isGguf } from './tensors.ts';

/** The header of a GGUF file, as far as the check needs it. */
export interface GgufHeader {
  architecture: string;
  /** Such as `model` or `adapter`. Empty: unknown. */
  type: string;
  /** Offset of the weights. */
  dataOffset: number;
  tensors: { elements: number; type: number; offset: number }[];
  /** Its whole numbers, the lengths of its lists, and the largest of short lists of numbers. */
  numbers: ReadonlyMap<string, number>;
  /** Its place in a split model, from 0, and the number of parts. Other models have one. */
  part: number;
  parts: number;
}

/** Why a file is no model by itself. Null: it may be one. */
export function otherKindOf({
  architecture,
  type,
  numbers,
}: Pick<GgufHeader, 'architecture' | 'type' | 'numbers'>) {
  if (architecture === 'clip' || type === 'mmproj')
    return 'it is a projector for images, not a model';
  if (type === 'adapter') return 'it is an adapter, not a model';
  const isEmpty = numbers.get(`${architecture}.context_length`) === 0;
  return isEmpty ? 'it says that its context holds no token' : null;
}

/** Thrown if the bytes end before the header. */
export const MORE = Symbol('more bytes');

/**
 * Reads a GGUF header with strict bounds. Throws MORE, or SvcError if llama.cpp cannot read the
 * file.
 *
 * The list of models reads headers with `@huggingface/gguf`, in a thread that may fail. That reader
 * decodes all values and has no bounds. This one decides what enters the models folder, so it
 * decodes nothing that it does not check.
 */
export function readGgufHeader(bytes: Buffer): GgufHeader {
  const cursor = new Cursor(bytes);
  if (!isGguf(cursor.take(4))) throw invalid('it is not a GGUF file');
  const version = cursor.uint32();
  if (version !== 2 && version !== 3)
    throw invalid(
      version > 0xffff
        ? 'it is written for machines of the other byte order'
        : `its version is ${version}, which is not known`,
    );
  const tensorCount = cursor.count('tensors');
  const entryCount = cursor.count('entries');
  let [architecture, kind] = ['', ''];
  let [part, parts] = [0, 1];
  let alignment = 32;
  const numbers = new Map<string, number>();
  for (let index = 0; index < entryCount; index += 1) {
    const key = cursor.text();
    const type = cursor.uint32();
    if (key === 'general.architecture' && type === STRING) architecture = cursor.text();
    else if (key === 'general.type' && type === STRING) kind = cursor.text();
    else if (key === 'split.no' && type === UINT16) part = cursor.take(2).readUInt16LE();
    else if (key === 'split.count' && type === UINT16) parts = cursor.take(2).readUInt16LE();
    else if (key === 'general.alignment' && type === UINT32) alignment = cursor.uint32();
    else {
      const value = cursor.size(type);
      if (value !== null && numbers.size < NUMBERS_MAX) numbers.set(key, value);
    }
  }
  // The first part of a split model may have no weights, and only it has the architecture.
  if (tensorCount === 0 && parts <= 1) throw invalid('it has no weights');
  if (architecture === '' && part === 0) throw invalid('it does not name its architecture');
  if (alignment === 0 || alignment > 1_048_576) throw invalid('its alignment is not one');
  const tensors = Array.from({ length: tensorCount }, () => cursor.tensor());
  const dataOffset = Math.ceil(cursor.position / alignment) * alignment;
  return {
    architecture,
    type: kind,
    dataOffset,
    tensors,
    numbers,
    part,
    parts: Math.max(1, parts),
  };
}

/** Entries and tensors of one file. */
const COUNT_MAX = 100_000;
/** Kept numbers of one file. */
const NUMBERS_MAX = 1024;
/** Texts in all lists of one file. A vocabulary with its merges has less than a million. */
const TEXTS_MAX = 2_000_000;
const DIMENSIONS_MAX = 4;
/** Entries of a short list, such as one number for each layer. */
const LIST_MAX = 1024;
const UINT16 = 2;
const UINT32 = 4;
const INT32 = 5;
const WHOLE: ReadonlySet<number> = new Set([UINT32, INT32]);
const STRING = 8;
const ARRAY = 9;
/** Bytes of a value by its type. Strings and arrays have a length field. */
const VALUE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, Number.NaN, Number.NaN, 8, 8, 8];

class Cursor {
  position = 0;
  private readonly bytes: Buffer;
  private texts = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  take(length: number): Buffer {
    const start = this.skip(length);
    return this.bytes.subarray(start, start + length);
  }

  uint32(): number {
    return this.bytes.readUInt32LE(this.skip(4));
  }

  count(what: string): number {
    const count = this.uint64();
    if (count > COUNT_MAX) throw invalid(`it says that it has ${count} ${what}`);
    return count;
  }

  text(): string {
    return this.take(this.uint64()).toString('utf8');
  }

  /** Skips a value. Returns what `numbers` has of it; null for nothing. */
  size(type: number): number | null {
    if (type === ARRAY) return this.skipArray();
    if (type === UINT32) return this.uint32();
    if (type === STRING) this.skip(this.uint64());
    else this.skip(width(type));
    return null;
  }

  tensor(): GgufHeader['tensors'][number] {
    this.skip(this.uint64());
    const dimensions = this.uint32();
    if (dimensions > DIMENSIONS_MAX) throw invalid(`a tensor has ${dimensions} dimensions`);
    let elements = 1;
    for (let index = 0; index < dimensions; index += 1) elements *= this.uint64();
    return { elements, type: this.uint32(), offset: this.uint64() };
  }

  private skipArray(): number {
    const type = this.uint32();
    const count = this.uint64();
    if (type === ARRAY) throw invalid('it has an array of arrays');
    if (type !== STRING) {
      const start = this.skip(width(type) * count);
      return WHOLE.has(type) && count > 0 && count <= LIST_MAX
        ? Math.max(
            ...Array.from({ length: count }, (_, at) => this.bytes.readUInt32LE(start + at * 4)),
          )
        : count;
    }
    this.texts += count;
    if (this.texts > TEXTS_MAX) throw invalid(`it lists more than ${TEXTS_MAX} texts`);
    for (let index = 0; index < count; index += 1) this.skip(this.uint64());
    return count;
  }

  private uint64(): number {
    const at = this.skip(8);
    const value = this.bytes.readUInt32LE(at + 4) * 2 ** 32 + this.bytes.readUInt32LE(at);
    if (value > Number.MAX_SAFE_INTEGER) throw invalid('a number in its header is too large');
    return value;
  }

  /** Advances and returns the previous position. */
  private skip(length: number): number {
    const start = this.position;
    if (start + length > this.bytes.length) throw MORE;
    this.position = start + length;
    return start;
  }
}

function width(type: number): number {
  const bytes = VALUE_BYTES[type];
  if (bytes === undefined) throw invalid(`it has a value of the type ${type}, which is not known`);
  return bytes;
}

export function invalid(why: string): SvcError {
  return pullError('model_invalid', `The engine cannot load the file: ${why}.`, { discard: true });
}
