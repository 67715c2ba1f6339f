import { open } from 'node:fs/promises';
import { type GgufHeader, invalid, MORE, readGgufHeader } from './header.ts';
import { tensorBytes } from './tensors.ts';

const FIRST_BYTES = 1024 * 1024;

/** Returns the header. Throws SvcError unless the file is a GGUF file with all its weights. */
export async function checkGguf(path: string, headerBytesMax: number): Promise<GgufHeader> {
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
        checkSize(header, size);
        return header;
      }
      if (bytesRead >= size) throw invalid('it ends in the middle of its header');
      if (length >= headerBytesMax)
        throw invalid(`its header is longer than ${headerBytesMax} bytes`);
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

function checkSize({ dataOffset, tensors }: GgufHeader, size: number): void {
  const end = tensors.reduce(
    (most, { elements, type, offset }) =>
      Math.max(most, dataOffset + offset + tensorBytes(type, elements)),
    0,
  );
  if (end > size) throw invalid(`it has ${size} bytes of at least ${Math.ceil(end)}`);
}
