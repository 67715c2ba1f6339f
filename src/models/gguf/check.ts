import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { type GgufHeader, invalidError, MORE, readGgufHeader, WEIGHTLESS } from './header.ts';
import { filesOfModel, partsOf } from './parts.ts';
import { tensorBytes } from './tensors.ts';

const FIRST_BYTES = 1024 * 1024;
/** The end of the name of an unfinished file. */
const DRAFT = '.partial';

/**
 * Returns the headers of a model, one of each part. Throws SvcError unless each part is there, is a
 * GGUF file with all its weights, and has its place.
 */
export async function checkGguf(
  path: string,
  headerBytesMax: number,
): Promise<[GgufHeader, ...GgufHeader[]]> {
  const missing = (await filesOfModel(path))?.missing ?? null;
  if (missing !== null) throw invalidError(`the part ${missing} is missing`);
  const parts = partsOf(path);
  const headers: GgufHeader[] = [];
  for (const [index, part] of parts.entries())
    headers.push(await checkPart(part, [index, parts.length], headerBytesMax));
  if (headers.every(({ tensors }) => tensors.length === 0)) throw invalidError(WEIGHTLESS);
  return headers as [GgufHeader, ...GgufHeader[]];
}

/** Checks one file of a model, perhaps with the ending of a draft. Throws SvcError. */
export async function checkPart(
  path: string,
  [index, count]: readonly [index: number, count: number],
  headerBytesMax: number,
): Promise<GgufHeader> {
  const file = basename(path, DRAFT);
  const name = count === 1 ? 'it' : `the part ${file}`;
  const header = await readHeader(path, headerBytesMax, name);
  if (header.parts === count && header.part === index) return header;
  throw invalidError(
    `${file} is part ${header.part + 1} of ${header.parts}, and its name says ` +
      `another place. The parts of a model have names such as name-00001-of-00003.gguf`,
  );
}

/**
 * Reads the header of one file, which has all its weights. Throws SvcError. `name`: the file in an
 * error.
 */
export async function readHeader(
  path: string,
  headerBytesMax = Number.POSITIVE_INFINITY,
  name = 'it',
): Promise<GgufHeader> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    for (
      let length = Math.min(FIRST_BYTES, headerBytesMax);
      ;
      length = Math.min(length * 4, headerBytesMax)
    ) {
      const { buffer, bytesRead } = await handle.read(
        Buffer.allocUnsafe(Math.min(length, size)),
        0,
        Math.min(length, size),
        0,
      );
      const header = readIfWhole(buffer.subarray(0, bytesRead));
      if (header !== null) {
        checkSize(header, size, name);
        return header;
      }
      if (bytesRead >= size) throw invalidError(`${name} ends in the middle of its header`);
      if (length >= headerBytesMax)
        throw invalidError(`${name} has a header longer than ${headerBytesMax} bytes`);
    }
  } finally {
    await handle.close();
  }
}

function readIfWhole(bytes: Buffer): GgufHeader | null {
  try {
    return readGgufHeader(bytes);
  } catch (thrown) {
    if (thrown === MORE) return null;
    throw thrown;
  }
}

function checkSize({ dataOffset, tensors }: GgufHeader, size: number, name: string): void {
  const end = tensors.reduce(
    (most, { elements, type, offset }) =>
      Math.max(most, dataOffset + offset + tensorBytes(type, elements)),
    0,
  );
  if (end > size)
    throw invalidError(`${name} is cut off: ${size} bytes of at least ${Math.ceil(end)}`);
}
