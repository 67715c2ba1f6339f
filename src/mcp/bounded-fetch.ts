import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import { NotSent } from './child-transport.ts';

export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * `fetch` for a server of tools over HTTP. A body, or one event of a stream, that exceeds its bound
 * ends with an error. So does a stream without an end. A redirect to another host would take the
 * headers and the arguments there, so it is refused. `onExcess` hears why a body ends: the client
 * takes the end of a stream for a pause.
 */
export function boundedFetch(
  limits: Pick<Limits, 'mcp_message_bytes' | 'mcp_stream_bytes'>,
  onExcess: (why: string) => void,
  send: Fetch = fetch,
): Fetch {
  return async (url, init) => {
    const response = await follow(send, new URL(url), init).catch((error: unknown) => {
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
    const cut = (controller: TransformStreamDefaultController, why: string) => {
      controller.error(new Error(why));
      onExcess(why);
    };
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        bytes += piece.length;
        const end = isStream ? lastEventEnd(piece) : -1;
        event_bytes = end < 0 ? event_bytes + piece.length : piece.length - end;
        if (event_bytes > limits.mcp_message_bytes)
          cut(controller, `a message has more than ${limits.mcp_message_bytes} bytes`);
        else if (!isLasting && bytes > limits.mcp_stream_bytes)
          cut(controller, 'it sends without an end');
        else controller.enqueue(piece);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
  };
}

/** Follows redirects that repeat the request at the same host, such as from `/mcp` to `/mcp/`. */
async function follow(
  send: Fetch,
  url: URL,
  init: RequestInit = {},
  left = REDIRECTS,
): Promise<Response> {
  const response = await send(url, { ...init, redirect: 'manual' });
  const { status, headers } = response;
  const place = headers.get('location');
  if (status < 300 || status > 399 || place === null) return response;
  await response.body?.cancel();
  const next = URL.canParse(place, url.href) ? new URL(place, url) : null;
  const isRepeat = status === 307 || status === 308 || (init.method ?? 'GET') === 'GET';
  if (next?.origin === url.origin && isRepeat && left > 0)
    return follow(send, next, init, left - 1);
  const to = oneLine(next?.origin ?? place).slice(0, PLACE_MAX);
  throw new SvcError(
    'mcp_unavailable',
    `The server of tools answered HTTP ${status}, which leads to ${to}. svc does not follow it.`,
    {
      hint: 'If that is its address, write it into mcp.json: svc mcp set <name> --url <address>',
      retryable: false,
      cause: new NotSent(),
    },
  );
}
const REDIRECTS = 3;
const PLACE_MAX = 200;

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
