import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { hasCode, SvcError } from '../../../src/errors.ts';
import { type RemoteOptions, remote, SECRET_KEY } from '../../helpers/remote.ts';
import { type Exchange, Upstream } from '../../helpers/upstream.ts';

async function listed(scenario: (exchange: Exchange) => unknown, options: RemoteOptions = {}) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, options);
  const models = await provider
    .models(new AbortController().signal)
    .catch((thrown: unknown) => thrown);
  const probed = await provider
    .probe(new AbortController().signal)
    .catch((thrown: unknown) => thrown);
  await provider.close();
  const { received } = upstream;
  await upstream.stop();
  return {
    models: Array.isArray(models) ? models : [],
    failure: models instanceof SvcError ? models : null,
    probed,
    received,
  };
}

const names = (models: { name: string }[]) => models.map(({ name }) => name);

test('the OpenAI list is read, and values that it lacks stay unknown', async () => {
  const { models, received } = await listed((x) =>
    x.reply(200, {
      object: 'list',
      data: [{ id: 'gpt-4o-mini', object: 'model', created: 1, owned_by: 'system' }],
    }),
  );
  assert.equal(models, [
    {
      id: 'test/gpt-4o-mini',
      provider: 'test',
      name: 'gpt-4o-mini',
      state: 'available',
      size_bytes: null,
      digest: null,
      quantization: null,
      parameters: null,
      context_length: null,
      capabilities: [],
      default: false,
      built_in: false,
      path: null,
    },
  ]);
  assert.equal(
    received.map(({ method, path, body }) => [method, path, body]),
    [
      ['GET', '/v1/models', ''],
      ['GET', '/v1/models', ''],
    ],
  );
});

test('a bare list, and one under another name, are read', async () => {
  assert.equal(names((await listed((x) => x.reply(200, [{ id: 'a' }, { id: 'b' }]))).models), [
    'a',
    'b',
  ]);
  assert.equal(names((await listed((x) => x.reply(200, { models: [{ name: 'c' }] }))).models), [
    'c',
  ]);
  assert.equal((await listed((x) => x.reply(200, { data: [] }))).models, []);
});

test('fields that servers add to a model are kept', async () => {
  const { models } = await listed((x) =>
    x.reply(200, {
      data: [
        { id: 'vllm', max_model_len: 32_768 },
        { id: 'groq', context_window: 131_072 },
        { id: 'llama', meta: { n_ctx_train: 2048, n_params: 1_100_048_384, size: 668_788_096 } },
        { id: 'odd', context_length: '4096', meta: { n_params: -1, size: 1.5 } },
      ],
    }),
  );
  assert.equal(
    models.map(({ context_length, parameters, size_bytes }) => [
      context_length,
      parameters,
      size_bytes,
    ]),
    [
      [32_768, null, null],
      [131_072, null, null],
      [2048, 1_100_048_384, 668_788_096],
      [null, null, null],
    ],
  );
});

test('the configured model is the default one', async () => {
  const { models } = await listed((x) => x.reply(200, { data: [{ id: 'm' }, { id: 'other' }] }));
  assert.equal(
    models.map((model) => model.default),
    [true, false],
  );
});

test('entries that are no models are left out, and none is listed twice', async () => {
  const list = [
    { id: 'a' },
    { id: 'a' },
    { id: 5 },
    { id: '' },
    null,
    'b',
    [],
    { id: 'bad\u001b[2J' },
    { id: 'x'.repeat(300) },
    { id: '__proto__' },
  ];
  assert.equal(names((await listed((x) => x.reply(200, { data: list }))).models), [
    'a',
    '__proto__',
  ]);
});

test('the number of models is bounded', async () => {
  const list = Array.from({ length: 50 }, (_, index) => ({ id: `m${index}` }));
  assert.is(
    (await listed((x) => x.reply(200, list), { limits: { provider_models: 7 } })).models.length,
    7,
  );
});

test('a list that is too long is refused', async () => {
  const { failure, probed } = await listed((x) => x.response.end(`[${' '.repeat(100_000)}]`), {
    limits: { provider_list_bytes: 50_000 },
  });
  assert.is(failure?.code, 'stream_oversized');
  assert.instance(probed, SvcError);
});

test('a server without a list is available, with no models', async () => {
  for (const status of [404, 405])
    assert.equal(
      (await listed((x) => x.reply(status, { error: { message: 'no such route' } }))).probed,
      { models: [] },
    );
});

test('a server of another kind is not accepted as a provider', async () => {
  for (const body of ['<!doctype html>', '{"ok":true}', '"list"', '5', '', '{"data":{}}']) {
    const { failure } = await listed((x) => x.response.end(body));
    assert.is(failure?.code, 'provider_rejected', body);
    assert.match(failure?.message ?? '', /not with a list of models/);
  }
});

test('refused credentials are sent, and reported', async () => {
  const { failure, received } = await listed(
    (x) => x.reply(401, { error: { message: `bad key ${SECRET_KEY}` } }),
    { config: { key: 'env:TEST_KEY' } },
  );
  assert.is(failure?.code, 'provider_unauthorised');
  assert.ok(hasCode(failure, 'provider_unauthorised'));
  assert.not.match(failure?.message ?? '', SECRET_KEY);
  assert.is(received[0]?.headers.authorization, `Bearer ${SECRET_KEY}`);
});

test('a missing key is reported without a request', async () => {
  const { failure, received } = await listed((x) => x.reply(200, []), {
    config: { key: 'env:TEST_KEY' },
    env: {},
  });
  assert.is(failure?.code, 'provider_unauthorised');
  assert.equal(received, []);
});

test('a probe that is aborted with an open connection says that the provider is slow', async () => {
  const upstream = await Upstream.start(() => undefined);
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const probe = provider.probe(abort.signal).catch((thrown: unknown) => thrown);
  while (upstream.received.length === 0) await new Promise((resolve) => setImmediate(resolve));
  abort.abort();
  const failure = (await probe) as SvcError;
  assert.is(failure.code, 'provider_timed_out');
  assert.match(failure.message, /takes the connection, but does not answer in time/);
  await provider.close();
  await upstream.stop();
});

test('a probe that is aborted without a connection says that the provider is not reached', async () => {
  const upstream = await Upstream.start(() => undefined);
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const probe = provider.probe(abort.signal).catch((thrown: unknown) => thrown);
  abort.abort();
  const failure = (await probe) as SvcError;
  assert.is(failure.code, 'provider_unreachable');
  assert.match(failure.message, /does not answer in time/);
  assert.equal(upstream.received, []);
  await provider.close();
  await upstream.stop();
});

test.run();
