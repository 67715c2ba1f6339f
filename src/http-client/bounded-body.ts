import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';

/**
 * Reads a whole body as text. Returns null if it is larger than the bound, also when it is unpacked
 * as its `encoding` says. The caller closes the connection then.
 */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | null,
  bytesMax: number,
  encoding = 'identity',
): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) return null;
    chunks.push(chunk);
  }
  const packed = Buffer.concat(chunks, bytes);
  if (encoding.toLowerCase() === 'identity') return textOf(packed);
  const unpack = UNPACKING[encoding.toLowerCase()];
  const unpacked = await unpack?.(packed, { maxOutputLength: bytesMax }).catch(() => null);
  return unpacked == null ? null : textOf(unpacked);
}

const UNPACKING: Readonly<
  Record<string, (packed: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>
> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** Without a byte order mark. */
function textOf(bytes: Buffer): string {
  return new TextDecoder().decode(bytes);
}
