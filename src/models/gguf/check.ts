import { open } from 'node:fs/promises';
import { type GgufHeader, invalid, MORE, readGgufHeader } from './header.ts';

const FIRST_BYTES = 1024 * 1024;

/** Throws SvcError unless the file is a GGUF file whose weights are all there. */
export async function checkGguf(path: string, header_bytes_max: number): Promise<void> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    for (
      let length = Math.min(FIRST_BYTES, header_bytes_max);
      ;
      length = Math.min(length * 4, header_bytes_max)
    ) {
      const { buffer, bytesRead } = await handle.read(
        Buffer.allocUnsafe(Math.min(length, size)),
        0,
        Math.min(length, size),
        0,
      );
      const header = readIfWhole(buffer.subarray(0, bytesRead));
      if (header !== null) return checkSize(header, size);
      if (bytesRead >= size) throw invalid('it ends in the middle of its header');
      if (length >= header_bytes_max)
        throw invalid(`its header is longer than ${header_bytes_max} bytes`);
    }
  } finally {
    await handle.close();
  }
}

/** Whether the first bytes are those of a GGUF file. */
export function isGguf(head: Buffer): boolean {
  return head.subarray(0, 4).toString('latin1') === 'GGUF';
}

function readIfWhole(bytes: Buffer): GgufHeader | null {
  try {
    return readGgufHeader(bytes);
  } catch (thrown) {
    if (thrown === MORE) return null;
    throw thrown;
  }
}

function checkSize({ data_offset, tensors }: GgufHeader, size: number): void {
  const end = tensors.reduce(
    (most, { elements, type, offset }) =>
      Math.max(most, data_offset + offset + (elements * (BITS[type] ?? 0)) / 8),
    0,
  );
  if (end > size) throw invalid(`it has ${size} bytes of at least ${Math.ceil(end)}`);
}

/** Bits of one weight by the type of its tensor, scales included; a type that is not in the table counts for nothing. */
const BITS: Readonly<Record<number, number>> = {
  ...{
    0: 32,
    1: 16,
    2: 4.5,
    3: 5,
    6: 5.5,
    7: 6,
    8: 8.5,
    9: 9,
    10: 2.625,
    11: 3.4375,
    12: 4.5,
    13: 5.5,
    14: 6.5625,
    15: 9.125,
  },
  ...{
    16: 2.0625,
    17: 2.3125,
    18: 3.0625,
    19: 1.5625,
    20: 4.5,
    21: 3.4375,
    22: 2.5625,
    23: 4.25,
    24: 8,
    25: 16,
    26: 32,
  },
  ...{ 27: 64, 28: 64, 29: 1.75, 30: 16, 34: 1.6875, 35: 2.0625, 39: 4.25 },
};
