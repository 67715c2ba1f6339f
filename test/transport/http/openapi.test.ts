import { Ajv2020 } from 'ajv/dist/2020.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { runInput } from '../../../src/contract/run.ts';
import { digits, named, object, query, text } from '../../../src/contract/vocabulary.ts';
import { routes } from '../../../src/daemon/routes.ts';
import { isPublic } from '../../../src/transport/auth/access.ts';
import { sendJson } from '../../../src/transport/http/reply.ts';
import { route } from '../../../src/transport/http/route.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { templateOf } from '../document.ts';
import { ask, BEARER, boot } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** The OpenAPI document agrees with the table of routes. */
const test = suite('openapi');
let real: Real;
let id: string;
// biome-ignore lint/suspicious/noExplicitAny: a document is walked as it comes
let document: any;

test.before(async () => {
  real = await bootReal({ script: [output('a', 1), output('b', 2), finish()] });
  id = (await real.runtime.runs.start({ prompt: 'hello' }, 'test')).id;
  await waitFor(
    'it is settled',
    () => real.runtime.status().state === 'ready' && !real.kernel.instances.has(id),
  );
  document = (await ask(`${real.url}/openapi.json`)).json;
});
test.after(() => real.close());

type Schema = Record<string, unknown>;

test('every route is described, and nothing else', () => {
  assert.equal(
    Object.entries(document.paths as Record<string, Schema>)
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
      .sort(),
    routes.map(({ method, path }) => `${method.toLowerCase()} ${templateOf(path)}`).sort(),
    'routes are rows of src/runtime/operations/ and of each folder of routes',
  );
  assert.is(document.openapi, '3.1.0');
  for (const { method, path, summary, access } of routes) {
    const operation = document.paths[templateOf(path)][method.toLowerCase()];
    assert.is(operation.summary, summary);
    assert.is(operation.security.length > 0, !isPublic(access), path);
    assert.equal(
      operation.parameters
        ?.filter((one: Schema) => one.in === 'path')
        .map((one: Schema) => one.name) ?? [],
      [...templateOf(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
    );
  }
});

test('every reference leads somewhere', () => {
  const names = [...JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g)].map(
    ([, name = '']) => name,
  );
  assert.ok(names.length > 20);
  for (const name of names) assert.ok(name in document.components.schemas, name);
});

test('third-party tools can read it: a server, a refusal of each operation, and valid schemas', () => {
  assert.equal(document.servers, [{ url: '/', description: 'This daemon.' }]);
  const ids = new Set<string>();
  for (const [path, methods] of Object.entries<Schema>(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const { operationId, responses } = operation as { operationId: string; responses: Schema };
      assert.ok('4XX' in responses && 'default' in responses, `${method} ${path}`);
      assert.ok(!ids.has(operationId), operationId);
      ids.add(operationId);
    }
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  for (const [place, schema] of schemasIn(document)) {
    const isValid = ajv.validateSchema(schema);
    assert.ok(isValid, `${place}: ${ajv.errorsText()}`);
  }
});

/** The schemas of the document: those with a name, and those of bodies, answers and parameters. */
function* schemasIn(value: unknown, place = ''): Generator<[string, Schema]> {
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    const here = `${place}/${name}`;
    if (name === 'schema' || /^\/components\/schemas\/\w+$/.test(here)) yield [here, inner];
    else yield* schemasIn(inner, here);
  }
}

test('only the bodies of lenient routes have room for other fields', () => {
  const schema = (name: string) => document.components.schemas[name];
  assert.is(schema('RunInput').additionalProperties, false);
  for (const name of ['ChatInput', 'ResponseInput', 'CompletionInput', 'EmbeddingsInput'])
    assert.not.match(JSON.stringify(schema(name)), '"additionalProperties":false', name);
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
