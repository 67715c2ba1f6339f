import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../src/daemon/routes.ts';
import { SvcError } from '../../src/errors.ts';
import type { PassedRequest } from '../../src/ports/providers.ts';
import { finish, output } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { Checker, templateOf } from './document.ts';
import { type Ask, ask, BEARER, TOKEN } from './http/boot.ts';
import { bootReal, type Real } from './http/real.ts';

/** Real answers of every route agree with the OpenAPI document. */
const test = suite<{ real: Real; id: string; checker: Checker; conversation: string }>(
  'the OpenAPI document',
);

const MODEL = 'local/svc-mini';
const messages = [{ role: 'user', content: 'hello' }];
const nonce = createHash('sha256').update('a page').digest('base64url');

interface Asked extends Ask {
  /** The path, if it is not that of the route with the id of a finished run. */
  path?: string;
  /** Without the token. */
  anonymous?: boolean;
  status: number;
}

/** Requests of each route, with each form of its answer and with an error. */
const asked: Readonly<Record<string, readonly Asked[]>> = {
  'GET /livez': [{ status: 200 }],
  'GET /readyz': [{ status: 200 }],
  'GET /metrics': [{ status: 200 }],
  'GET /openapi.json': [{ status: 200 }],
  'GET /': [{ status: 200 }, { headers: { accept: 'text/html' }, status: 200 }],
  'GET /console/*': [
    { path: '/console/main.js', status: 200 },
    { path: '/console/style/base.css', status: 200 },
    { path: '/console/manifest.webmanifest', status: 200 },
    { path: '/console/icon-192.png', status: 200 },
    { path: '/console/worker.js', status: 200 },
    { path: '/console/no', status: 404 },
  ],

  'GET /v1/runtime/health': [{ status: 200 }, { status: 200, anonymous: true }],
  'POST /v1/runtime/events': [
    { body: { type: 'made_up' }, status: 409 },
    { body: { type: 1 }, status: 400 },
  ],
  'GET /v1/runtime/state': [
    { status: 200 },
    { path: '/v1/runtime/state?at=4', status: 200 },
    { path: '/v1/runtime/state?at=0', status: 400 },
  ],

  'POST /v1/runs': [
    { body: { prompt: 'more' }, status: 202 },
    { body: { messages, tools: [{ name: 'weather' }] }, status: 202 },
    { body: { prompt: 'more' }, headers: { accept: 'text/event-stream' }, status: 200 },
    { body: { prompt: '' }, status: 400 },
    { body: 'no JSON', headers: { 'content-type': 'application/json' }, status: 400 },
  ],
  'GET /v1/runs/search': [
    { path: '/v1/runs/search?words=hello', status: 200 },
    { path: '/v1/runs/search?words=-', status: 400 },
    { path: '/v1/runs/search', status: 400 },
  ],
  'DELETE /v1/runs/:id': [{ path: '/v1/runs/run_none', status: 404 }],
  'GET /v1/runs': [
    { status: 200 },
    { path: '/v1/runs?limit=1&texts=short', status: 200 },
    { path: '/v1/runs?limit=x', status: 400 },
  ],
  'GET /v1/runs/:id': [{ status: 200 }, { path: '/v1/runs/run_x', status: 404 }],
  'GET /v1/runs/:id/events': [{ status: 200 }],
  'GET /v1/runs/:id/why': [{ status: 200 }],
  'GET /v1/runs/:id/export': [{ status: 200 }],
  'POST /v1/runs/:id/cancel': [{ status: 200 }],

  'GET /v1/providers': [{ status: 200 }],
  'GET /v1/usage': [
    { status: 200 },
    { path: '/v1/usage?by=day', status: 200 },
    { path: '/v1/usage?by=x', status: 400 },
  ],
  'GET /v1/nodes': [{ status: 200 }],
  'POST /v1/nodes/:id/drain': [{ path: '/v1/nodes/no/drain', status: 404 }],
  'POST /mcp': [
    {
      body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
      headers: { accept: 'application/json, text/event-stream' },
      status: 200,
    },
    { body: { jsonrpc: '2.0', method: 'notifications/initialized' }, status: 406 },
  ],
  'GET /v1/approvals': [{ status: 200 }],
  'GET /v1/approvals/events': [{ status: 200 }],
  'GET /v1/approvals/:id': [{ path: '/v1/approvals/no', status: 404 }],
  'POST /v1/approvals/:id': [
    { path: '/v1/approvals/no', body: { decision: 'allow' }, status: 404 },
    { path: '/v1/approvals/no', body: { decision: 'perhaps' }, status: 400 },
  ],
  'GET /v1/mcp': [{ status: 200 }],
  'POST /v1/mcp/:name/test': [{ path: '/v1/mcp/no/test', status: 404 }],
  'GET /v1/models/loaded': [{ status: 200 }],
  'POST /v1/models/load': [{ body: { model: 1 }, status: 400 }],
  'POST /v1/models/unload': [{ body: {}, status: 400 }],
  'POST /v1/models/pull': [{ body: {}, status: 400 }],
  'POST /v1/models/remove': [{ body: {}, status: 400 }],
  'POST /v1/providers': [
    { body: { id: 'a', base_url: 'https://a.example/v1' }, status: 400 },
    { body: { id: 'a', key: 'env:HOME' }, status: 400 },
  ],
  'DELETE /v1/providers/:id': [{ path: '/v1/providers/no', status: 404 }],
  'POST /v1/providers/:id/test': [
    { path: '/v1/providers/local/test', status: 200 },
    { path: '/v1/providers/no/test', status: 404 },
  ],
  'POST /v1/providers/:id/default': [{ path: '/v1/providers/no/default', status: 404 }],
  'GET /v1/settings': [{ status: 200 }, { status: 401, anonymous: true }],
  'POST /v1/settings/apply': [{ status: 200 }],
  'GET /v1/machines': [{ status: 200 }],
  'GET /v1/machines/:name/diagram': [
    { path: '/v1/machines/run/diagram', status: 200 },
    { path: '/v1/machines/no/diagram', status: 404 },
  ],
  'GET /v1/events': [{ status: 426 }],
  'GET /v1/logs': [{ status: 426 }],

  'POST /v1/session': [
    { body: { token: TOKEN }, status: 200 },
    { body: { token: 'wrong' }, status: 401 },
  ],
  'GET /v1/session': [{ status: 204 }],
  'GET /v1/session/proof': [{ path: `/v1/session/proof?by=token&nonce=${nonce}`, status: 200 }],
  'DELETE /v1/session': [{ status: 204 }],

  'POST /v1/chat/completions': [
    { body: { model: MODEL, messages }, status: 200 },
    { body: { model: MODEL, messages, stream: true }, status: 200 },
    { body: { model: MODEL, messages: [] }, status: 400 },
  ],
  'POST /v1/completions': [
    { body: { model: MODEL, prompt: 'Once' }, status: 200 },
    { body: { model: MODEL, prompt: 'Once', stream: true }, status: 200 },
    { body: { model: MODEL, prompt: 1 }, status: 400 },
  ],
  'GET /v1/models': [{ status: 200 }],
  'GET /v1/models/:id': [
    { path: '/v1/models/svc-mini', status: 200 },
    { path: '/v1/models/no', status: 404 },
  ],
  'GET /v1/models/:provider/*': [{ path: `/v1/models/${MODEL}`, status: 200 }],

  'POST /v1/messages': [
    { body: { model: MODEL, max_tokens: 9, messages }, status: 200 },
    { body: { model: MODEL, max_tokens: 9, messages, stream: true }, status: 200 },
    { body: { model: MODEL, messages }, status: 400 },
  ],
  'POST /v1/messages/count_tokens': [{ body: { model: MODEL, messages }, status: 400 }],

  'POST /v1/embeddings': [
    { body: { model: MODEL, input: 'a' }, status: 200 },
    { body: { model: MODEL, input: [] }, status: 400 },
  ],
  'POST /v1/audio/transcriptions': [{ body: { model: MODEL }, status: 400 }],
  'POST /v1/images/generations': [
    { body: { model: MODEL, prompt: 'a cat', size: '256x256' }, status: 200 },
    { body: { model: MODEL }, status: 400 },
  ],
  'POST /v1/rerank': [
    { body: { model: MODEL, query: 'a', documents: ['b'], return_documents: true }, status: 200 },
    { body: { model: MODEL, query: 'a', documents: [] }, status: 400 },
  ],
  'POST /rerank': [{ body: { query: 'a', documents: [{ text: 'b' }], top_n: 1 }, status: 200 }],
  'POST /v2/rerank': [{ body: { query: 'a', documents: ['b'] }, status: 200 }],
  'POST /tokenize': [
    { body: { model: MODEL, content: 'a' }, status: 200 },
    { body: { model: MODEL }, status: 400 },
  ],
  'POST /detokenize': [
    { body: { model: MODEL, tokens: [1] }, status: 200 },
    { body: { model: MODEL, tokens: 1 }, status: 400 },
  ],
  'POST /apply-template': [
    { body: { model: MODEL, messages }, status: 200 },
    { body: { model: MODEL, messages: [] }, status: 400 },
  ],
  'POST /infill': [
    { body: { model: MODEL, input_prefix: 'a', input_suffix: 'b', n_predict: 1 }, status: 200 },
    { body: { model: MODEL, input_prefix: 'a' }, status: 400 },
  ],
  'GET /props': [{ path: `/props?model=${MODEL}`, status: 200 }],
  'POST /v1/responses': [
    { body: { model: MODEL, input: 'hello' }, status: 200 },
    { body: { model: MODEL, input: 'hello', stream: true }, status: 200 },
    { body: { model: MODEL, input: 1 }, status: 400 },
  ],
  'GET /v1/responses': [{ status: 426 }],
  'POST /v1/responses/input_tokens': [
    { body: { model: MODEL, input: 'hi' }, status: 200 },
    { body: { model: MODEL, input: 1 }, status: 400 },
  ],
  'POST /v1/responses/compact': [
    { body: { model: MODEL, input: 'hi' }, status: 200 },
    { body: { input: 'hi' }, status: 400 },
  ],
  'GET /v1/responses/:id': [
    { status: 200 },
    { path: '/v1/responses/:id?stream=true', status: 200 },
    { path: '/v1/responses/no', status: 404 },
  ],
  'GET /v1/responses/:id/input_items': [{ status: 200 }],
  'POST /v1/responses/:id/cancel': [{ status: 400 }],
  'DELETE /v1/responses/:id': [{ status: 200 }],

  'POST /v1/conversations': [
    { body: { items: [{ role: 'user', content: 'x' }], metadata: { a: 'b' } }, status: 200 },
    { body: { items: 1 }, status: 400 },
  ],
  'GET /v1/conversations': [{ status: 200 }, { path: '/v1/conversations?limit=0', status: 400 }],
  'GET /v1/conversations/:id': [{ status: 200 }, { path: '/v1/conversations/conv_x', status: 404 }],
  'GET /v1/conversations/:id/usage': [
    { status: 200 },
    { path: '/v1/conversations/conv_x/usage', status: 404 },
  ],
  'POST /v1/conversations/:id': [{ body: { metadata: { a: 'c' } }, status: 200 }],
  'POST /v1/conversations/:id/items': [
    { body: { items: [{ role: 'assistant', content: 'x' }] }, status: 200 },
    { body: { items: [] }, status: 400 },
  ],
  'GET /v1/conversations/:id/items': [
    { status: 200 },
    { path: '/v1/conversations/:id/items?after=x', status: 400 },
  ],
  'GET /v1/conversations/:id/items/:item': [{ status: 200 }],
  'DELETE /v1/conversations/:id/items/:item': [{ status: 200 }, { status: 404 }],
  'DELETE /v1/conversations/:id': [{ status: 200 }, { status: 404 }],

  'POST /api/chat': [
    { body: { model: MODEL, messages, stream: false }, status: 200 },
    { body: { model: MODEL, messages }, status: 200 },
    { body: { model: 1 }, status: 400 },
  ],
  'POST /api/generate': [
    { body: { model: MODEL, prompt: 'hello', stream: false }, status: 200 },
    { body: { model: MODEL, prompt: 'hello' }, status: 200 },
  ],
  'POST /api/embed': [{ body: { model: MODEL, input: ['a'] }, status: 200 }],
  'POST /api/embeddings': [{ body: { model: MODEL, prompt: 'a' }, status: 200 }],
  'GET /api/tags': [{ status: 200 }],
  'GET /api/ps': [{ status: 200 }],
  'POST /api/show': [
    { body: { model: MODEL }, status: 200 },
    { body: { model: 'no' }, status: 404 },
  ],
  'GET /api/version': [{ status: 200 }],
  'POST /api/pull': [
    { body: { model: MODEL }, status: 200 },
    { body: { model: MODEL, stream: false }, status: 200 },
    { body: { model: 'nope:x' }, status: 400 },
  ],
  'POST /api/create': [
    { body: { model: 'made', from: MODEL, system: 'Be short.' }, status: 200 },
    { body: { model: 'made', from: MODEL, stream: false }, status: 200 },
    { body: { model: 'made' }, status: 400 },
  ],
  'POST /api/copy': [
    { body: { source: MODEL, destination: 'copied' }, status: 200 },
    { body: { source: MODEL, destination: 'a/b' }, status: 400 },
  ],
  'POST /api/push': [{ status: 404 }],
  'POST /api/blobs/:digest': [{ path: '/api/blobs/sha256:0', status: 404 }],
  'DELETE /api/delete': [
    { body: { model: 'copied' }, status: 200 },
    { body: { model: 1 }, status: 400 },
  ],
};

test.before(async (context) => {
  const real = await bootReal({ script: [output('a', 1), output('b', 2), finish()] });
  const model = { id: MODEL, name: 'svc-mini', provider: 'local', capabilities: [], path: null };
  Object.assign(real.provider, {
    models: async () => [model],
    embed: async () => ({ vectors: [[0.5]], input_tokens: 1 }),
    rank: async () => ({ scores: [0.5], input_tokens: 1 }),
    read: async () => ({ text: 'a', tokens: [{ id: 1, text: 'a' }] }),
    pass: async ({ take }: PassedRequest) => {
      const body = Readable.from([Buffer.from('{"created":1,"data":[]}')]);
      await take({ content_type: 'application/json', body });
      return { input_tokens: null };
    },
  });
  Object.assign(real.runtime.models, {
    show: async (id: string) => {
      if (!MODEL.endsWith(id)) throw new SvcError('model_unknown');
      return { ...model, metadata: {}, metadata_left_out: 0 };
    },
  });
  Object.assign(real.runtime.approvals, {
    async *watch() {
      yield { approvals: [] };
    },
  });
  const body = { model: MODEL, input: 'hello' };
  const { json } = await real.get('/v1/responses', { method: 'POST', body });
  const id = String(json.id).replace('resp_', 'run_');
  await waitFor(
    'the run is settled',
    () => real.runtime.status().state === 'ready' && !real.kernel.instances.has(id),
  );
  const checker = new Checker((await ask(`${real.url}/openapi.json`)).json);
  const items = [{ role: 'user', content: 'x' }];
  const made = await real.get('/v1/conversations', { method: 'POST', body: { items } });
  Object.assign(context, { real, id, checker, conversation: String(made.json.id) });
});
test.after(({ real }) => real.close());

test('the requests of this test cover every route', () => {
  assert.equal(
    Object.keys(asked).sort(),
    routes.map(({ method, path }) => `${method} ${path}`).sort(),
    '`asked` is in test/transport/conformance.test.ts',
  );
});

for (const [route, requests] of Object.entries(asked))
  test(`${route} answers as the document says`, async ({ real, id, checker, conversation }) => {
    const [method = '', path = ''] = route.split(' ');
    const responseId = path.startsWith('/v1/responses') ? id.replace('run_', 'resp_') : id;
    const own = path.startsWith('/v1/conversations') ? conversation : responseId;
    const item = `${conversation.replace('conv_', 'in_')}_0`;
    for (const { path: given = path, status, anonymous, ...how } of requests) {
      const target = given.replace(':id', own).replace(':item', item);
      const headers = { ...(anonymous === true ? {} : BEARER), ...how.headers };
      const answer = await ask(real.url + target, { ...how, method, headers });
      assert.is(answer.status, status, `${target}: ${answer.text}`);
      assert.equal(checker.answer(route, answer), [], target);
    }
  });

test('a request without the token has the form of errors that its route describes', async ({
  real,
  checker,
}) => {
  for (const { method, path, access } of routes) {
    if (access !== 'token' && access !== 'monitor') continue;
    const answer = await ask(real.url + path, { method });
    assert.is(answer.status, 401, path);
    assert.equal(checker.answer(`${method} ${path}`, answer), [], path);
  }
});

test('the bodies that routes accept fit their schemas', ({ checker }) => {
  for (const [route, requests] of Object.entries(asked))
    for (const { body, status } of requests) {
      const [method = '', path = ''] = route.split(' ');
      const { requestBody } = checker.document.paths[templateOf(path)][method.toLowerCase()];
      if (status >= 400 || typeof body !== 'object') continue;
      const { schema } = requestBody.content['application/json'];
      assert.equal(checker.problems(body, schema), [], `${route} ${JSON.stringify(body)}`);
    }
});

test('what is refused whatever the models are, the document refuses too', async ({
  checker,
  real,
}) => {
  const model = 'm';
  const message = { role: 'user', content: 'x' };
  for (const [path, body] of [
    ['/v1/runs', { messages: [] }],
    ['/v1/runs', { prompt: 'x', model: ' \u0000' }],
    ['/v1/runs', { prompt: 'x', idempotency_key: 'a b' }],
    ['/v1/chat/completions', { model, messages: [] }],
    ['/v1/chat/completions', { model, messages: [message], verbosity: 'long' }],
    ['/v1/messages', { model, max_tokens: 5, messages: [] }],
    ['/v1/embeddings', { model, input: '' }],
    ['/v1/embeddings', { model, input: [] }],
    ['/api/chat', { model: '\u0000', messages: [message] }],
    ['/api/generate', { model, prompt: 'x', template: 'y' }],
    ['/api/embed', { model, input: 5 }],
    ['/api/embeddings', { model, prompt: 5 }],
  ] as const) {
    const { requestBody } = checker.document.paths[path].post;
    const { schema } = requestBody.content['application/json'];
    assert.ok(checker.problems(body, schema).length > 0, `${path} ${JSON.stringify(body)}`);
    const { status } = await ask(real.url + path, { method: 'POST', headers: BEARER, body });
    assert.is(status, 400, `${path} ${JSON.stringify(body)}`);
  }
});

test('a wrong answer is found', ({ checker }) => {
  const answer = { status: 200, headers: { 'content-type': 'application/json' }, json: null };
  const found = (route: string, value: unknown, status = 200) =>
    checker.answer(route, { ...answer, status, text: JSON.stringify(value) }).length;
  assert.is(found('GET /v1/session/proof', { proof: 'x' }), 0);
  for (const wrong of [{}, { proof: 1 }, { proof: 'x', more: 1 }, null, 'x'])
    assert.ok(found('GET /v1/session/proof', wrong) > 0, JSON.stringify(wrong));
  assert.ok(found('GET /v1/session', {}, 200) > 0, 'a status that is not described');
  assert.ok(found('GET /no', {}) > 0, 'a route that is not described');
});

test.run();
