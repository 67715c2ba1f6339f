/**
 * Reads a whole body as text. Returns null if it is larger than the bound. The caller closes the
 * connection then.
 */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | null,
  bytesMax: number,
): Promise<string | null> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) return null;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
