import type { IncomingMessage, ServerResponse } from 'node:http';

/** An allowed page may send any header. The star does not include the first one. */
const REQUEST_HEADERS = 'Authorization, *';
const PREFLIGHT_SECONDS = 600;

/**
 * Keeps pages of other origins from embedding an answer, or from reaching a page that they opened.
 */
export function keepToOrigin(res: ServerResponse): void {
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  res.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
}

/**
 * Lets an allowed page read the answer. Credentials are never allowed: the page needs the token.
 */
export function allowOrigin(res: ServerResponse, origin: string | null): void {
  res.setHeader('Vary', 'Origin');
  if (origin === null) return;
  res.setHeader('Access-Control-Allow-Origin', origin);
  res.setHeader('Access-Control-Expose-Headers', '*');
}

/** Answers OPTIONS with the methods of the path, and a preflight with the allowed headers. */
export function sendOptions(
  req: IncomingMessage,
  res: ServerResponse,
  methods: readonly string[],
): void {
  res.setHeader('Allow', methods.join(', '));
  if (
    res.hasHeader('Access-Control-Allow-Origin') &&
    req.headers['access-control-request-method'] !== undefined
  ) {
    res.setHeader('Access-Control-Allow-Methods', methods.join(', '));
    res.setHeader('Access-Control-Allow-Headers', REQUEST_HEADERS);
    res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS);
    // A page of a public site asks whether it may reach this network.
    if (req.headers['access-control-request-private-network'] === 'true')
      res.setHeader('Access-Control-Allow-Private-Network', 'true');
  }
  res.writeHead(204).end();
}
