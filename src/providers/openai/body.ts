import { parseForeignJson } from '../../json.ts';

/** The beginning of a body, as text; what is longer than the bound is left, and its connection closed. Null: there was more. */
export async function readBounded(
  body: ReadableStream<Uint8Array> | null,
  bytes_max: number,
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
      if (bytes > bytes_max) return null;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Undefined when it is not JSON, nests too deeply, or was longer than its bound. */
export function parseJson(text: string | null): unknown {
  return text === null ? undefined : parseForeignJson(text);
}
