import { status } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { createGrpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { createMethods } from '../../src/transport/control/methods.ts';
import { detailsOf, runtimeClient } from '../grpc/runtime-client.ts';
import { silent } from '../helpers/kernel.ts';
import { finish, output } from '../helpers/scripted-provider.ts';
import { TOKEN } from './http/boot.ts';
import { bootReal, type Real } from './http/real.ts';

/**
 * Many tiny messages, parts or tools. Each API refuses them by their number, before it checks any
 * of them: here every item is wrong too, and the error does not say so.
 */
const test = suite<{ real: Real }>('requests with many parts');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('a'), finish()] });
});
test.after.each(({ real }) => real.close());

const many = (count: number, item: unknown = {}) => Array.from({ length: count }, () => item);
const user = (content: unknown) => ({ role: 'user', content });

/** Each API, with the name of its messages, and fields that it needs. */
const APIS = [
  ['/v1/runs', 'messages', {}],
  ['/v1/chat/completions', 'messages', { model: 'local/a' }],
  ['/v1/responses', 'input', { model: 'local/a' }],
  ['/v1/messages', 'messages', { model: 'local/a', max_tokens: 9 }],
  ['/v1/messages/count_tokens', 'messages', { model: 'local/a' }],
  ['/api/chat', 'messages', { model: 'local/a' }],
] as const;

for (const [path, said, more] of APIS)
  test(`${path} counts before it checks`, async ({ real }) => {
    for (const [body, expected] of [
      [{ [said]: many(4097) }, /^(messages|input) has 4097 (messages|items); at most 4096/],
      [{ [said]: [user(many(8193))] }, /^(messages|input) has more than 8192 parts; at most 8192/],
      [{ [said]: many(3, user(many(2731))) }, /has more than 8192 parts/],
      [{ [said]: [user('a')], tools: many(1025) }, /^tools has 1025 tools; at most 1024/],
    ] as const) {
      const { status, json } = await real.get(path, { method: 'POST', body: { ...more, ...body } });
      const { error } = json;
      assert.is(status, 400);
      assert.match(typeof error === 'string' ? error : error.message, expected);
    }
  });

test('a conversation of 1000 messages with some parts each is answered', async ({ real }) => {
  const messages = many(1000, user(many(4, { type: 'text', text: 'a' })));
  const { status, text } = await real.get('/v1/chat/completions', {
    method: 'POST',
    body: { model: 'local/a', messages },
  });
  assert.is(status, 200, text);
});

test('run.start on the local socket counts before it checks', async ({ real }) => {
  const { runtime, config } = real;
  const call = createMethods({ runtime, limits: config.limits } as never);
  const refusal = async (params: object): Promise<SvcError> => {
    try {
      await call('run.start', params, {} as never);
    } catch (error) {
      return error as SvcError;
    }
    throw new Error('it was accepted');
  };
  const messages = await refusal({ messages: many(4097) });
  assert.equal([messages.code, messages.param], ['invalid_request', 'messages']);
  assert.match(messages.message, /4097 messages; at most 4096/);
  assert.match((await refusal({ prompt: 'a', tools: many(1025) })).message, /1025 tools/);
  assert.match((await refusal({ messages: [user(many(8193))] })).message, /8192 parts/);
});

test('gRPC counts the fields of a request before it decodes it', async ({ real }) => {
  const { runtime, config, unsent } = real;
  const grpc = createGrpc({
    runtime,
    unsent,
    log: silent,
    limits: { ...config.limits, request_values: 20_000 },
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
  });
  const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
  const refusal = async (request: object) => {
    const ended = await client.stream('Run', request).ended;
    assert.is(ended.code, status.INVALID_ARGUMENT, ended.details);
    return [detailsOf(ended).ErrorInfo?.metadata.code, ended.details];
  };
  const tooMany = ['body_too_large', 'The request has more than 20000 values.'];
  assert.equal(await refusal({ messages: many(20_001) }), tooMany);
  assert.equal(await refusal({ messages: [{ content: many(20_001) }] }), tooMany);
  assert.equal(await refusal({ prompt: 'a', stop: many(20_001, '') }), tooMany);
  const text = many(20_001, { text: 'a' });
  assert.equal(await refusal({ messages: many(2, { role: 'user', content: text }) }), tooMany);
  const [code, details] = await refusal({ messages: many(4097) });
  assert.is(code, 'invalid_request');
  assert.match(String(details), /^messages has 4097 messages/);
  const answered = client.stream('Run', { messages: many(1000, user([{ text: 'a' }])) });
  assert.is((await answered.ended).code, status.OK);
  client.close();
  await grpc.close();
});

test.run();
