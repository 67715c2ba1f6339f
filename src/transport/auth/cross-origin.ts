import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * What an allowed page may send. The clients of OpenAI and Anthropic describe themselves at length.
 */
const REQUEST_HEADERS = [
  'Authorization, X-Api-Key, Content-Type, Accept, Idempotency-Key, If-None-Match, Last-Event-ID',
  'X-Svc-Client, X-Svc-On-Disconnect, Anthropic-Version, Anthropic-Beta, ' +
    'Anthropic-Dangerous-Direct-Browser-Access',
  'OpenAI-Beta, OpenAI-Organization, OpenAI-Project',
  'X-Stainless-Arch, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version',
  'X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Retry-Count, X-Stainless-Timeout',
  'X-Stainless-Helper, X-Stainless-Helper-Method, X-Stainless-Poll-Helper',
].join(', ');
const RESPONSE_HEADERS =
  'Location, Request-Id, Retry-After, X-Request-Id, X-Svc-Error, X-Svc-Run-Id';
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
  res.setHeader('Access-Control-Expose-Headers', RESPONSE_HEADERS);
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
  }
  res.writeHead(204).end();
}
