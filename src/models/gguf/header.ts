import type { SvcError } from '../../errors.ts';
import { pullError } from '../failure.ts';
import { isGguf } from './tensors.ts';

/** The header of a GGUF file. */
export interface GgufHeader {
  architecture: string;
  /** Such as `model` or `adapter`. Empty: unknown. */
  type: string;
  /** Offset of the weights. */
  dataOffset: number;
  tensors: { name: string; elements: number; type: number; offset: number }[];
  entries: Entries;
  /** Its place in a split model, from 0, and the number of parts. Other models have one. */
  part: number;
  parts: number;
}

/** Why a file is not a model by itself. Null: it may be a model. */
export function otherKindOf({ architecture, type, entries }: GgufHeader): string | null {
  if (architecture === 'clip' || type === 'mmproj')
    return 'it is a projector for images, not a model';
  if (type === 'adapter') return 'it is an adapter, not a model';
  const isEmpty = entries.number(`${architecture}.context_length`) === 0;
  return isEmpty ? 'it says that its context holds no token' : null;
}

/** Thrown if the bytes end before the header. */
export const MORE = Symbol('more bytes');

/**
 * Reads a GGUF header with strict bounds. Throws MORE, or SvcError if llama.cpp cannot read the
 * file. It decides what enters the models folder, and decodes no value before it is read.
 */
export function readGgufHeader(bytes: Buffer): GgufHeader {
  const cursor = new Cursor(bytes);
  if (!isGguf(cursor.take(4))) throw invalidError('it is not a GGUF file');
  const version = cursor.uint32();
  if (version !== 2 && version !== 3)
    throw invalidError(
      version > 0xffff
        ? 'it is written for machines of the other byte order'
        : `its version is ${version}, which is not known`,
    );
  const tensorCount = cursor.count('tensors');
  const entryCount = cursor.count('entries');
  const entries = new Entries(bytes);
  for (let index = 0; index < entryCount; index += 1) entries.add(cursor.text(), cursor.place());
  const textAt = (key: string) => String(entries.value(key, STRING) ?? '');
  const numberAt = (key: string, type: number) => Number(entries.value(key, type) ?? 0);
  const architecture = textAt('general.architecture');
  const [part, parts] = [numberAt('split.no', UINT16), numberAt('split.count', UINT16)];
  const alignment = Number(entries.value('general.alignment', UINT32) ?? 32);
  // The first part of a split model may have no weights, and only it has the architecture.
  if (tensorCount === 0 && parts <= 1) throw invalidError(WEIGHTLESS);
  if (architecture === '' && part === 0) throw invalidError('it does not name its architecture');
  if (alignment === 0 || alignment > 1_048_576) throw invalidError('its alignment is not one');
  const tensors = Array.from({ length: tensorCount }, () => cursor.tensor());
  const dataOffset = Math.ceil(cursor.position / alignment) * alignment;
  return {
    architecture,
    type: textAt('general.type'),
    dataOffset,
    tensors,
    entries,
    part,
    parts: Math.max(1, parts),
  };
}

export const WEIGHTLESS = 'it has no weights';

/** Where a value is. `count`: values of a list. Null: it is not a list. */
interface Place {
  type: number;
  at: number;
  count: number | null;
}

/** The entries of a header, in their order. Each is decoded when it is read. */
export class Entries {
  private readonly bytes: Buffer;
  private readonly places = new Map<string, Place>();

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  add(key: string, place: Place): void {
    this.places.set(key, place);
  }

  get keys(): string[] {
    return [...this.places.keys()];
  }

  /** Values of a list. Null: it is not a list, or there is no such entry. */
  count(key: string): number | null {
    return this.places.get(key)?.count ?? null;
  }

  /** Undefined: it is absent, or it has another type than this one. */
  value(key: string, type?: number): unknown {
    const place = this.places.get(key);
    if (place === undefined || (type !== undefined && type !== place.type)) return undefined;
    return new Cursor(this.bytes, place.at).value(place.type);
  }

  /** A number, the largest one of a short list, or the length of another list. */
  number(key: string): number | undefined {
    const count = this.count(key);
    if (count !== null && count > LIST_MAX) return count;
    const value = this.value(key);
    if (!Array.isArray(value)) return typeof value === 'number' ? value : undefined;
    return value.length > 0 && value.every((each) => typeof each === 'number')
      ? Math.max(...value)
      : value.length;
  }
}

/** Entries and tensors of one file. */
const COUNT_MAX = 100_000;
/** Texts in all lists of one file. A vocabulary with its merges has less than a million. */
const TEXTS_MAX = 2_000_000;
const DIMENSIONS_MAX = 4;
/** Values of a short list, such as one number for each layer. */
const LIST_MAX = 1024;
const UINT16 = 2;
const UINT32 = 4;
const STRING = 8;
const ARRAY = 9;

/** The types of values by their numbers: bytes of one, and how it is read. */
const TYPES: Readonly<
  Record<number, [bytes: number, read: (from: Buffer, at: number) => unknown]>
> = {
  0: [1, (from, at) => from.readUInt8(at)],
  1: [1, (from, at) => from.readInt8(at)],
  [UINT16]: [2, (from, at) => from.readUInt16LE(at)],
  3: [2, (from, at) => from.readInt16LE(at)],
  [UINT32]: [4, (from, at) => from.readUInt32LE(at)],
  5: [4, (from, at) => from.readInt32LE(at)],
  6: [4, (from, at) => from.readFloatLE(at)],
  7: [1, (from, at) => from.readUInt8(at) !== 0],
  10: [8, (from, at) => Number(from.readBigUInt64LE(at))],
  11: [8, (from, at) => Number(from.readBigInt64LE(at))],
  12: [8, (from, at) => from.readDoubleLE(at)],
};

class Cursor {
  position: number;
  private readonly bytes: Buffer;
  private texts = 0;

  constructor(bytes: Buffer, position = 0) {
    [this.bytes, this.position] = [bytes, position];
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
    if (count > COUNT_MAX) throw invalidError(`it says that it has ${count} ${what}`);
    return count;
  }

  text(): string {
    return this.take(this.uint64()).toString('utf8');
  }

  /** Skips a type and its value. */
  place(): Place {
    const type = this.uint32();
    const at = this.position;
    if (type === ARRAY) return { type, at, count: this.skipArray() };
    this.skip(type === STRING ? this.uint64() : bytesOf(type));
    return { type, at, count: null };
  }

  value(type: number): unknown {
    if (type === STRING) return this.text();
    if (type !== ARRAY) return TYPES[type]?.[1](this.bytes, this.skip(bytesOf(type)));
    const each = this.uint32();
    return Array.from({ length: this.uint64() }, () => this.value(each));
  }

  tensor(): GgufHeader['tensors'][number] {
    const name = this.text();
    const dimensions = this.uint32();
    if (dimensions > DIMENSIONS_MAX) throw invalidError(`a tensor has ${dimensions} dimensions`);
    let elements = 1;
    for (let index = 0; index < dimensions; index += 1) elements *= this.uint64();
    return { name, elements, type: this.uint32(), offset: this.uint64() };
  }

  private skipArray(): number {
    const type = this.uint32();
    const count = this.uint64();
    if (type === ARRAY) throw invalidError('it has an array of arrays');
    if (type !== STRING) {
      this.skip(bytesOf(type) * count);
      return count;
    }
    this.texts += count;
    if (this.texts > TEXTS_MAX) throw invalidError(`it lists more than ${TEXTS_MAX} texts`);
    for (let index = 0; index < count; index += 1) this.skip(this.uint64());
    return count;
  }

  private uint64(): number {
    const at = this.skip(8);
    const value = this.bytes.readUInt32LE(at + 4) * 2 ** 32 + this.bytes.readUInt32LE(at);
    if (value > Number.MAX_SAFE_INTEGER) throw invalidError('a number in its header is too large');
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

function bytesOf(type: number): number {
  const known = TYPES[type];
  if (known === undefined)
    throw invalidError(`it has a value of the type ${type}, which is not known`);
  return known[0];
}

export function invalidError(why: string): SvcError {
  return pullError('model_invalid', `${REFUSAL}${why}.`, { discard: true });
}

const REFUSAL = 'The engine cannot load the file: ';

/** Why a file cannot be read, for a place that already says that it cannot. */
export function whyOf({ message }: Error): string {
  return message.startsWith(REFUSAL) ? message.slice(REFUSAL.length, -1) : message;
}
