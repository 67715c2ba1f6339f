import * as v from 'valibot';
import { errorAnswer } from '../../../contract/records.ts';
import { runInput } from '../../../contract/run.ts';
import { PLAIN as plainText } from '../../../contract/vocabulary.ts';
import type { Limits } from '../../../limits.ts';
import { isPublic } from '../../auth/access.ts';
import type { Answer, Route } from '../route.ts';
import { components, type Schema, Schemas } from './schemas.ts';

/** The OpenAPI document, made from the routes. */
export function openapi(
  routes: readonly Route[],
  limits: Limits,
  version: string,
): Record<string, unknown> {
  const schemas = new Schemas();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = templateOf(route);
    const described = operation(route, limits, schemas);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: described };
  }
  const bodySchemasOf = (isLenient: boolean) =>
    routes.flatMap(({ body, unknownFields }) =>
      body !== undefined && (unknownFields !== undefined) === isLenient
        ? [schemas.schemaOf(body, 'input')]
        : [],
    );
  const bodies = { exact: bodySchemasOf(false), lenient: bodySchemasOf(true) };
  schemas.convert();
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc',
      version,
      description:
        'A local AI runtime daemon. Errors are the same everywhere: see the schema Error.',
    },
    servers: [{ url: '/', description: 'This daemon.' }],
    paths,
    components: {
      schemas: components(bodies),
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'The token that `svc token` prints.',
        },
        api_key: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Api-Key',
          description: 'The same token.',
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

/** The path as a template. The last part of a path may have slashes. */
function templateOf({ path }: Pick<Route, 'path'>): string {
  return path.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{rest}');
}

function operation(
  {
    method,
    path,
    access,
    summary,
    query,
    headers = [],
    body,
    bodyType,
    answers,
    errorSchema = errorAnswer,
  }: Route,
  limits: Limits,
  schemas: Schemas,
): Record<string, unknown> {
  const { entries = {} } = (typeof query === 'function' ? query(limits) : query) ?? {};
  const inPath = [...templateOf({ path }).matchAll(/\{(\w+)\}/g)].map(([, name = '']) =>
    parameter('path', name, true, PLAIN),
  );
  const parameters = [
    ...inPath,
    ...Object.entries(entries as Record<string, v.GenericSchema>).map(([name, entry]) =>
      parameter('query', name, entry.type !== 'exact_optional', schemas.schemaOf(entry, 'output')),
    ),
    ...headers.map((name) => parameter('header', name, false, headerSchema(name, schemas))),
  ];
  const failed = { content: json(schemas.schemaOf(errorSchema, 'output')) };
  return {
    operationId: [method.toLowerCase(), ...(path.match(/\w+/g) ?? [])].join('_'),
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: {
              [bodyType ?? 'application/json']: { schema: schemas.schemaOf(body, 'input') },
            },
          },
        }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [
          status,
          response([answer].flat(), schemas),
        ]),
      ),
      '4XX': { ...failed, description: 'The request is refused.' },
      default: { ...failed, description: 'An error' },
    },
    security: isPublic(access) ? [] : access === 'token' ? SECURITY : [{}, ...SECURITY],
  };
}

const SECURITY = [{ token: [] }, { api_key: [] }, { session: [] }];
const TEXT: Schema = { type: 'string' };
/** No request target has a control character. */
const PLAIN: Schema = { ...TEXT, minLength: 1, pattern: plainText.source };
/** Headers whose values are checked as fields of a run are. */
const HEADERS: Readonly<Record<string, v.GenericSchema>> = {
  'Idempotency-Key': v.unwrap(runInput.entries.idempotency_key),
  'X-Svc-Client': v.unwrap(runInput.entries.client),
};

function headerSchema(name: string, schemas: Schemas): Schema | undefined {
  const schema = HEADERS[name];
  return schema === undefined ? undefined : schemas.schemaOf(schema, 'input');
}

const json = (schema: Schema) => ({ 'application/json': { schema } });

function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  required: boolean,
  schema: Schema = TEXT,
): Record<string, unknown> {
  return { in: place, name, required, schema };
}

function response(answers: readonly Answer[], schemas: Schemas): Record<string, unknown> {
  const content = answers
    .filter((answer) => answer !== null)
    .map((answer) => contentOf(answer, schemas));
  return content.length === 0
    ? { description: 'Nothing' }
    : { description: 'The answer', content: Object.fromEntries(content) };
}

function contentOf(answer: Exclude<Answer, null>, schemas: Schemas): [string, { schema?: Schema }] {
  if ('kind' in answer) return ['application/json', { schema: schemas.schemaOf(answer, 'output') }];
  const { type, schema } = answer;
  return [type, schema === undefined ? {} : { schema: schemas.schemaOf(schema, 'output') }];
}
