import { sendBytes } from '../reply.ts';
import type { Context, Route } from '../route.ts';

/** The document of each table of routes. It is made once, since it does not change. */
const made = new WeakMap<readonly Route[], Buffer>();

export async function sendOpenapi(
  { res, runtime }: Context,
  routes: readonly Route[],
): Promise<void> {
  // Loaded here: no daemon needs the converter to start.
  const { openapi } = await import('./document.ts');
  const body =
    made.get(routes) ??
    Buffer.from(`${JSON.stringify(openapi(routes, runtime.health().version))}\n`);
  made.set(routes, body);
  sendBytes(res, 200, body);
}
