import type { Limits } from '../limits.ts';
import { NotSent } from './child-transport.ts';

/**
 * `fetch` for a server of tools over HTTP. A body, or one event of a stream, that exceeds its bound
 * ends with an error. So does a stream without an end.
 */
export function boundedFetch(
  limits: Limits,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const response = await fetch(url, init).catch((error: unknown) => {
      throw isUnreached(error)
        ? new NotSent(String((error as Error).cause), { cause: error })
        : error;
    });
    if (response.body === null) return response;
    const isStream = response.headers.get('content-type')?.includes('text/event-stream') === true;
    // The stream that the client opens by itself stays open, and only its events are bounded.
    const isLasting = (init?.method ?? 'GET') === 'GET';
    let event_bytes = 0;
    let bytes = 0;
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        bytes += piece.length;
        const end = isStream ? lastEventEnd(piece) : -1;
        event_bytes = end < 0 ? event_bytes + piece.length : piece.length - end;
        if (event_bytes > limits.mcp_message_bytes)
          controller.error(new Error(`a message has more than ${limits.mcp_message_bytes} bytes`));
        else if (!isLasting && bytes > limits.mcp_stream_bytes)
          controller.error(new Error('it sends without an end'));
        else controller.enqueue(piece);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
  };
}

/** Where the last event of the piece ends. -1: none does. */
function lastEventEnd(piece: Uint8Array): number {
  const text = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  return Math.max(text.lastIndexOf('\n\n'), text.lastIndexOf('\r\n\r\n'));
}

const UNREACHED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

function isUnreached(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return UNREACHED.has(code ?? '');
}
