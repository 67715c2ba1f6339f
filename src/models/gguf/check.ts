import { open } from 'node:fs/promises';
import { type GgufHeader, invalid, MORE, readGgufHeader } from './header.ts';
import { tensorBytes } from './tensors.ts';

const FIRST_BYTES = 1024 * 1024;

/** Throws SvcError unless the file is a GGUF file with all its weights. */
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
      Math.max(most, data_offset + offset + tensorBytes(type, elements)),
    0,
  );
  if (end > size) throw invalid(`it has ${size} bytes of at least ${Math.ceil(end)}`);
}
