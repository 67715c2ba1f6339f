import { sendBytes } from '../reply.ts';
import type { Context, Route } from '../route.ts';
import { type Answer, type Described, described } from './routes.ts';
import { ref, type Schema, schemas, text } from './schemas.ts';

/** The description of each table of routes, made once: it stays the same for the life of the process. */
const made = new WeakMap<readonly Route[], Buffer>();

export function sendOpenapi({ res, runtime }: Context, routes: readonly Route[]): void {
  const body =
    made.get(routes) ??
    Buffer.from(`${JSON.stringify(openapi(routes, runtime.health().version))}\n`);
  made.set(routes, body);
  sendBytes(res, 200, body);
}

export function openapi(routes: readonly Route[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc',
      version,
      description:
        'A local AI runtime daemon. Errors are the same everywhere: see the schema Error.',
    },
    paths,
    components: {
      schemas,
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'The token that `svc token` prints.',
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'svc_session_<port>',
          description: 'The cookie of POST /v1/session.',
        },
      },
    },
  };
}

function operation({ method, path, door, summary }: Route): Record<string, unknown> {
  const {
    query = {},
    headers = {},
    body,
    answers,
  }: Described = described[`${method} ${path}`] ?? { answers: {} };
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) =>
    parameter('path', name, text),
  );
  const parameters = [
    ...inPath,
    ...Object.entries(query).map(([name, schema]) => parameter('query', name, schema)),
    ...Object.entries(headers).map(([name, schema]) => parameter('header', name, schema)),
  ];
  return {
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [status, response(answer)]),
      ),
      default: ERROR,
    },
    security: door === 'token' ? [{ token: [] }, { session: [] }] : [],
  };
}

const ERROR = {
  description: 'An error',
  content: { 'application/json': { schema: ref('Error') } },
};

function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  schema: Schema,
): Record<string, unknown> {
  return { in: place, name, required: place === 'path', schema };
}

function response(answer: Answer): Record<string, unknown> {
  if (answer === null) return { description: 'Nothing' };
  if (!('json' in answer)) return { description: 'Content', content: { [answer.type]: {} } };
  return {
    description: 'The answer',
    content: { [answer.type ?? 'application/json']: { schema: answer.json } },
  };
}
