import type { IncomingMessage } from 'node:http';

/**
 * The token of a client that can send no header: `/t/<token>/api/tags` is `/api/tags` with it.
 *
 * It is taken off the path before anything else reads the request. So no error, log, figure or
 * trace can have it. Programs join addresses, so a slash may be there twice.
 */
const taken = new WeakMap<IncomingMessage, string>();

export function takePathToken(request: IncomingMessage): void {
  const [, token, rest = ''] = /^\/+t\/([^/?]*)\/*(.*)$/s.exec(request.url ?? '') ?? [];
  if (token === undefined) return;
  taken.set(request, token);
  request.url = `/${rest}`;
}

/** Null: the path had none. */
export function pathTokenOf(request: IncomingMessage): string | null {
  return taken.get(request) ?? null;
}
