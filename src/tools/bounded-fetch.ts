import type { Dispatcher } from 'undici';
import { SvcError } from '../errors.ts';
import { JsonMeter } from '../json.ts';
import type { JsonBudget } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import { NotSent } from './child-transport.ts';

export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * `fetch` for a tool server over HTTP. A redirect to another host would take the headers and the
 * arguments there, so it is refused. A request that did not leave ends with NotSent.
 */
export function nearFetch(send: Fetch = patientFetch): Fetch {
  return (url, init) =>
    follow(send, new URL(url), init).catch((error: unknown) => {
      throw isUnreached(error)
        ? new NotSent(String((error as Error).cause), { cause: error })
        : error;
    });
}

/** The same, with a budget of each body of JSON. A larger body ends with an error. */
export function boundedFetch(budget: JsonBudget, send: Fetch): Fetch {
  const near = nearFetch(send);
  return async (url, init) => {
    const response = await near(url, init);
    if (response.body === null) return response;
    const json = new JsonMeter(budget);
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        const excess = json.take(piece);
        if (excess !== null) controller.error(excess);
        else controller.enqueue(piece);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(bound), { status, statusText, headers });
  };
}

/** A call, a start and a stop have times of svc. Of itself undici gives up after five minutes. */
async function patientFetch(url: string | URL, init: RequestInit = {}): Promise<Response> {
  // Loaded here: the daemon needs it for no other server.
  const { Agent, fetch } = await import('undici');
  patient ??= new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  return (await fetch(url, { ...(init as object), dispatcher: patient })) as unknown as Response;
}

let patient: Dispatcher | null = null;

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
    `The tool server answered HTTP ${status}, which leads to ${to}. svc does not follow it.`,
    {
      hint: 'If that is its address, write it into mcp.json: svc mcp set <name> --url <address>',
      retryable: false,
      cause: new NotSent(),
    },
  );
}
const REDIRECTS = 3;
const PLACE_MAX = 200;

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
