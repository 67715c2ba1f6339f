import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { isIn } from '../../machines/step.ts';
import { remote } from '../helpers/remote.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { bootReal, type Real } from './http/real.ts';

/** What a provider says reaches the client with its status, in the form of each API. */

interface Scripted {
  status: number;
  error: object;
  headers?: Record<string, string>;
}
interface Context {
  real: Real;
  upstream: Upstream;
  /** What the upstream says from now on. */
  says: (next: Scripted) => void;
  asked: () => number;
  close: () => Promise<void>;
}
const test = suite<Context>('errors of an upstream');

test.before.each(async (context) => {
  let scripted: Scripted = { status: 500, error: {} };
  context.upstream = await Upstream.start((x: Exchange) =>
    x.received.method === 'GET'
      ? x.reply(200, { data: [{ id: 'm' }] })
      : x.reply(scripted.status, { error: scripted.error }, scripted.headers ?? {}),
  );
  const port = remote(context.upstream.base_url, { config: { key: 'env:TEST_KEY' } });
  context.real = await bootReal({
    remote: { lan: { port, kind: 'local' } },
    limits: { run_attempts: 2 },
  });
  context.says = (next) => {
    scripted = next;
  };
  context.asked = () => context.upstream.received.filter(({ method }) => method === 'POST').length;
  context.close = async () => {
    await context.real.close();
    await port.close();
    await context.upstream.stop();
  };
});
test.after.each(({ close }) => close());

const messages = [{ role: 'user', content: 'hi' }];
const APIS = {
  openai: ['/v1/chat/completions', { messages }],
  responses: ['/v1/responses', { input: 'hi' }],
  anthropic: ['/v1/messages', { messages, max_tokens: 9 }],
  ollama: ['/api/chat', { messages, stream: false }],
} as const;
type Api = keyof typeof APIS;

const post = ({ real }: Context, api: Api, more: object = {}, headers = {}) => {
  const [path, body] = APIS[api];
  return real.get(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...body, model: 'lan/m', ...more }),
  });
};

const isWaiting = ({ kernel }: Real) =>
  [...kernel.instances.values()].some(({ snapshot }) => isIn(snapshot, 'backoff'));

/** The code or type of an error, in the form of its API. */
const kindOf = (api: Api, text: string): unknown => {
  const { error } = JSON.parse(text);
  if (api === 'anthropic') return error.type;
  return api === 'ollama' ? typeof error : [error.code, error.type];
};

const rows: [said: Scripted, openai: unknown, anthropic: string][] = [
  [
    { status: 400, error: { message: 'temperature must be at most 2', param: 'temperature' } },
    ['provider_rejected', 'invalid_request_error'],
    'invalid_request_error',
  ],
  [
    { status: 401, error: { message: 'Incorrect API key' } },
    ['provider_unauthorised', 'authentication_error'],
    'authentication_error',
  ],
  [
    { status: 429, error: { message: 'Slow down' }, headers: { 'retry-after': '45' } },
    ['provider_busy', 'rate_limit_error'],
    'rate_limit_error',
  ],
  [
    { status: 429, error: { message: 'No credit', code: 'insufficient_quota' } },
    ['insufficient_quota', 'insufficient_quota'],
    'billing_error',
  ],
  [
    {
      status: 529,
      error: { message: 'Busy', type: 'overloaded_error' },
      headers: { 'retry-after': '45' },
    },
    ['provider_overloaded', 'overloaded_error'],
    'overloaded_error',
  ],
];

for (const [said, openai, anthropic] of rows)
  for (const api of Object.keys(APIS) as Api[])
    test(`${said.status} ${JSON.stringify(said.error)} stays so in the API of ${api}`, async (context) => {
      context.says(said);
      const answer = await post(context, api);
      const { message, param } = said.error as { message: string; param?: string };
      assert.is(answer.status, said.status, answer.text);
      assert.match(answer.text, message, "the provider's own words");
      assert.equal(
        kindOf(api, answer.text),
        api === 'anthropic' ? anthropic : api === 'ollama' ? 'string' : openai,
      );
      const wait = Number(answer.headers['retry-after'] ?? Number.NaN);
      if (said.headers === undefined) assert.ok(Number.isNaN(wait), 'no wait is made up');
      else assert.ok(wait >= 40 && wait <= 46, `the wait is ${wait}`);
      if (param !== undefined && api === 'openai')
        assert.is(JSON.parse(answer.text).error.param, param);
      if (said.status === 401) {
        assert.match(String(answer.headers['www-authenticate']), 'provider');
        assert.match(answer.text, 'test refused');
      }
      // Asked once: the client may ask again when the wait is over.
      const repeats = said.headers !== undefined;
      assert.is(answer.headers['x-should-retry'], repeats ? undefined : 'false');
      assert.is(context.asked(), 1);
    });

test('a failure that svc repeated itself is not repeated by clients', async (context) => {
  context.says({ status: 500, error: { message: 'oops' } });
  for (const api of ['openai', 'anthropic'] as const) {
    const answer = post(context, api);
    await waitFor('the first attempt failed', () => isWaiting(context.real));
    context.real.clock.advance(60_000);
    const { status, headers } = await answer;
    assert.equal([status, headers['x-should-retry']], [502, 'false']);
  }
});

test('the end that a key leads to is read again, and is no reason to repeat', async (context) => {
  context.says({ status: 429, error: { message: 'Slow' }, headers: { 'retry-after': '45' } });
  const key = { 'idempotency-key': 'k' };
  for (const _ of [1, 2]) {
    const { status, headers, text } = await post(context, 'openai', {}, key);
    assert.equal([status, headers['x-should-retry']], [429, 'false']);
    assert.is(headers['retry-after'], undefined);
    const { retryable, hint } = JSON.parse(text).error;
    assert.is(retryable, false);
    assert.match(hint, 'another idempotency key');
  }
  assert.is(context.asked(), 1);
  for (const api of ['responses', 'anthropic', 'ollama'] as const) {
    const headers = { 'idempotency-key': api };
    await post(context, api, {}, headers);
    const again = await post(context, api, {}, headers);
    assert.equal(
      [again.headers['x-should-retry'], again.headers['retry-after']],
      ['false', undefined],
    );
    assert.match(again.text, 'another idempotency key');
  }
});

test('a stream that fails after its headers names the same error', async (context) => {
  context.says({ status: 429, error: { message: 'No credit', code: 'insufficient_quota' } });
  const { text } = await post(context, 'responses', { stream: true });
  assert.match(text, '"code":"insufficient_quota"');
  assert.match(text, 'No credit');
});

test.run();
