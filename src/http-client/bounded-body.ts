/**
 * Reads a whole body as text. Returns null if it is larger than the bound, and closes its
 * connection.
 */
export async function readBounded(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<string | null> {
  if (body === null) return '';
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      bytes += value.length;
      if (bytes > bytesMax) return null;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
