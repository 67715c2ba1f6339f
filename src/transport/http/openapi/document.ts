import type * as v from 'valibot';
import type { Route } from '../route.ts';
import { type Answer, type Described, described } from './routes.ts';
import { ref, type Schema, schemaOf, schemas } from './schemas.ts';

/** The OpenAPI document, from the table of routes and the schemas of the contract. */
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

function operation({ method, path, access, summary }: Route): Record<string, unknown> {
  const {
    query = { entries: {} },
    headers = [],
    body,
    answers,
  }: Described = described[`${method} ${path}`] ?? { answers: {} };
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) =>
    parameter('path', name, true),
  );
  const parameters = [
    ...inPath,
    ...Object.entries(query.entries as Record<string, v.GenericSchema>).map(([name, entry]) =>
      parameter('query', name, entry.type !== 'exact_optional', schemaOf(entry)),
    ),
    ...headers.map((name) => parameter('header', name, false)),
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
    security: access === 'token' ? [{ token: [] }, { session: [] }] : [],
  };
}

const TEXT: Schema = { type: 'string' };
const ERROR = {
  description: 'An error',
  content: { 'application/json': { schema: ref('Error') } },
};

function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  required: boolean,
  schema: Schema = TEXT,
): Record<string, unknown> {
  return { in: place, name, required, schema };
}

function response(answer: Answer): Record<string, unknown> {
  if (answer === null) return { description: 'Nothing' };
  if (!('json' in answer)) return { description: 'Content', content: { [answer.type]: {} } };
  return {
    description: 'The answer',
    content: { [answer.type ?? 'application/json']: { schema: answer.json } },
  };
}
