import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { runInput } from '../../../src/runtime/contract/inputs.ts';
import { digits, named, object, query, text } from '../../../src/runtime/contract/vocabulary.ts';
import { sendJson } from '../../../src/transport/http/reply.ts';
import { route } from '../../../src/transport/http/route.ts';
import { routes } from '../../../src/transport/routes.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, boot } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** The OpenAPI document agrees with the table of routes and with real answers. */
const test = suite('openapi');
let real: Real;
let id: string;
// biome-ignore lint/suspicious/noExplicitAny: a document is walked as it comes
let document: any;

test.before(async () => {
  real = await bootReal({ script: [output('a', 1), output('b', 2), finish()] });
  id = (await real.runtime.startRun({ prompt: 'hello' }, 'test')).id;
  await waitFor(
    'it is settled',
    () => real.runtime.status().state === 'ready' && !real.kernel.instances.has(id),
  );
  document = (await ask(`${real.url}/openapi.json`)).json;
});
test.after(() => real.close());

type Schema = Record<string, unknown>;

/** What is wrong with a value, by the path to it. */
function problems(value: unknown, schema: Schema, path = '$'): string[] {
  if (typeof schema.$ref === 'string')
    return problems(value, document.components.schemas[schema.$ref.split('/').at(-1) ?? ''], path);
  if (Array.isArray(schema.anyOf)) {
    const found = schema.anyOf.map((one: Schema) => problems(value, one, path));
    return found.some((list) => list.length === 0) ? [] : (found[0] ?? []);
  }
  if (Array.isArray(schema.enum) && !schema.enum.includes(value))
    return [`${path}: ${JSON.stringify(value)} is none of the words`];
  if (schema.type === 'array')
    return Array.isArray(value)
      ? value.flatMap((item, index) => problems(item, schema.items as Schema, `${path}[${index}]`))
      : [`${path} is no list`];
  if (schema.type === 'object') return inObject(value, schema, path);
  if ('const' in schema) return value === schema.const ? [] : [`${path} is not the constant`];
  if (schema.type === undefined) return [];
  const type =
    value === null
      ? 'null'
      : Number.isInteger(value) && schema.type === 'integer'
        ? 'integer'
        : typeof value;
  return type === schema.type ? [] : [`${path} is ${type}, not ${String(schema.type)}`];
}

function inObject(value: unknown, schema: Schema, path: string): string[] {
  if (typeof value !== 'object' || value === null) return [`${path} is no object`];
  const others = schema.additionalProperties;
  if (typeof others === 'object' && others !== null)
    return Object.entries(value).flatMap(([name, item]) =>
      problems(item, others as Schema, `${path}.${name}`),
    );
  const known = schema.properties as Record<string, Schema>;
  const missing = (schema.required as string[])
    .filter((name) => !(name in value))
    .map((name) => `${path}.${name} is missing`);
  const inner = Object.entries(value).flatMap(([name, item]) => {
    const property = known[name];
    return property === undefined
      ? [`${path}.${name} is not described`]
      : problems(item, property, `${path}.${name}`);
  });
  return [...missing, ...inner];
}

test('every route is described, and nothing else', () => {
  assert.equal(
    Object.entries(document.paths as Record<string, Schema>)
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
      .sort(),
    routes
      .map(({ method, path }) => `${method.toLowerCase()} ${path.replace(/:(\w+)/g, '{$1}')}`)
      .sort(),
  );
  assert.is(document.openapi, '3.1.0');
  for (const { method, path, summary, access } of routes) {
    const operation = document.paths[path.replace(/:(\w+)/g, '{$1}')][method.toLowerCase()];
    assert.is(operation.summary, summary);
    assert.is(operation.security.length > 0, access === 'token' || access === 'monitor', path);
    assert.equal(
      operation.parameters
        ?.filter((one: Schema) => one.in === 'path')
        .map((one: Schema) => one.name) ?? [],
      [...path.matchAll(/:(\w+)/g)].map(([, name]) => name),
    );
  }
});

test('a route that the page of HTTP says is not served yet is not in it', () => {
  const said = /^Not served yet: .*$/m.exec(readFileSync('docs/http.md', 'utf8'))?.[0] ?? '';
  const paths = [...said.matchAll(/`[A-Z]+ (\/[^`]+)`/g)].map(([, path = '']) => path);
  assert.ok(paths.length > 0);
  for (const path of paths) assert.not.ok(path in document.paths, path);
});

test('every reference leads somewhere', () => {
  const names = [...JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g)].map(
    ([, name = '']) => name,
  );
  assert.ok(names.length > 20);
  for (const name of names) assert.ok(name in document.components.schemas, name);
});

test('answers have the described fields, and no others', async () => {
  const seq = (await real.store.readStream(id, 2, 1))[0]?.seq ?? 0;
  const asked: [method: string, route: string, path: string, body?: object][] = [
    ['GET', '/livez', '/livez'],
    ['GET', '/readyz', '/readyz'],
    ['GET', '/v1/runtime/health', '/v1/runtime/health'],
    ['GET', '/v1/runtime/state', '/v1/runtime/state'],
    ['GET', '/v1/runtime/state', `/v1/runtime/state?at=${seq}`],
    ['POST', '/v1/runs', '/v1/runs', { prompt: 'more' }],
    ['GET', '/v1/runs', '/v1/runs?limit=1'],
    ['GET', '/v1/runs/{id}', `/v1/runs/${id}`],
    ['GET', '/v1/runs/{id}', `/v1/runs/${id}?at=${seq}`],
    ['GET', '/v1/runs/{id}/why', `/v1/runs/${id}/why`],
    ['POST', '/v1/runs/{id}/cancel', `/v1/runs/${id}/cancel`],
    ['GET', '/v1/providers', '/v1/providers'],
    ['GET', '/v1/models', '/v1/models'],
    ['GET', '/v1/machines', '/v1/machines'],
  ];
  for (const [method, route, path, body] of asked) {
    const { status, headers, json } = await real.get(path, {
      method,
      ...(body === undefined ? {} : { body }),
    });
    const content = document.paths[route][method.toLowerCase()].responses[status]?.content ?? {};
    const schema = content[headers['content-type'] ?? '']?.schema;
    assert.ok(schema, `${method} ${path}: ${status} ${headers['content-type']}`);
    assert.equal(problems(json, schema), [], `${method} ${path}`);
  }
});

test('errors have the described form', async () => {
  for (const path of [
    '/v1/runs/nobody',
    '/nowhere',
    '/v1/runs?limit=x',
    '/v1/runtime/state?at=0',
  ]) {
    const { status, json } = await real.get(path);
    assert.ok(status >= 400);
    assert.equal(problems(json, document.components.schemas.Error), []);
  }
});

test('the described fields of a run and the parameters are those that are accepted', async () => {
  assert.equal(
    Object.keys(document.components.schemas.RunInput.properties).sort(),
    Object.keys(runInput.entries).sort(),
  );
  let asked = 0;
  for (const { method, path, query } of routes) {
    if (method !== 'GET' || query === undefined) continue;
    const target = path.replace(':id', id);
    const { json } = await real.get(`${target}?surely_not_there=1`);
    const message: string = json.error.message;
    const described = document.paths[path.replace(':id', '{id}')].get.parameters ?? [];
    for (const parameter of described.filter((one: Schema) => one.in === 'query'))
      assert.ok(message.includes(parameter.name), `${target}: ${message}`);
    asked += 1;
  }
  assert.ok(asked >= 8);
});

test('one row checks the requests of another API, and describes them and its errors', async () => {
  const echo = route({
    method: 'POST',
    path: '/v1/echo',
    access: 'token',
    summary: 'Answers with the text.',
    query: query({ times: v.exactOptional(digits(1, 3)) }),
    body: named('EchoInput', object({ text })),
    answers: { 200: [object({ echo: text }), { type: 'text/event-stream' }], 204: null },
    errors: ({ message }) => ({ type: 'error', text: message }),
    errorSchema: object({ type: v.literal('error'), text }),
    answer: async ({ res, query: { times = 1 }, body }) => {
      const { text } = await body();
      sendJson(res, 200, { echo: text.repeat(times) });
    },
  });
  const http = await boot({ routes: [echo, ...routes] });
  const post = (target: string, body: object, headers = BEARER) =>
    ask(http.url + target, { method: 'POST', body, headers });
  const { json } = await ask(`${http.url}/openapi.json`);
  const refused = [
    await post('/v1/echo', {}),
    await post('/v1/echo', { text: 1 }),
    await post('/v1/echo?times=4', { text: 'a' }),
    await post('/v1/echo?time=1', { text: 'a' }),
  ];
  const unknown = await post('/v1/echo', { text: 'a' }, { authorization: 'Bearer no' });
  const answer = await post('/v1/echo?times=2', { text: 'ab' });
  await http.close();

  assert.equal(answer.json, { echo: 'abab' });
  for (const { status, json } of refused) {
    assert.equal([status, json.type], [400, 'error']);
    assert.match(json.text, /^(text|times|"time") /);
  }
  assert.equal([unknown.status, unknown.json.type], [401, 'error']);
  const { parameters, requestBody, responses } = json.paths['/v1/echo'].post;
  assert.equal(
    parameters.map(({ in: place, name }: Schema) => [place, name]),
    [['query', 'times']],
  );
  assert.equal(requestBody.content['application/json'].schema, {
    $ref: '#/components/schemas/EchoInput',
  });
  assert.equal(Object.keys(json.components.schemas.EchoInput.properties), ['text']);
  assert.equal(Object.keys(responses['200'].content), ['application/json', 'text/event-stream']);
  assert.equal(responses['204'], { description: 'Nothing' });
  assert.equal(responses.default.content['application/json'].schema.properties.type, {
    const: 'error',
  });
});

test.run();
