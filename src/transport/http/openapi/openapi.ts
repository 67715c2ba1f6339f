import type { Limits } from '../../../limits.ts';
import { sendBytes } from '../reply.ts';
import { type Context, type Route, route } from '../route.ts';

export const openapiRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/openapi.json',
    access: 'public',
    summary: 'The description of these routes, in OpenAPI 3.1.',
    answers: { 200: { type: 'application/json' } },
    answer: sendOpenapi,
  }),
];

/** The document of each listener. It is made once, since it does not change. */
const made = new WeakMap<Limits, Buffer>();

async function sendOpenapi({ res, runtime, routes, limits }: Context): Promise<void> {
  // Loaded here: no daemon needs the converter to start.
  const { openapi } = await import('./document.ts');
  const body =
    made.get(limits) ??
    Buffer.from(`${JSON.stringify(openapi(routes, limits, runtime.health().version))}\n`);
  made.set(limits, body);
  sendBytes(res, 200, body);
}
