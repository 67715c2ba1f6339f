import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Outcome,
  outcome,
  type RemoteOptions,
  remote,
  SECRET_KEY,
  SECRET_PROMPT,
} from '../../helpers/remote.ts';
import { type Scenario, Upstream } from '../../helpers/upstream.ts';

/**
 * A server that refuses or is no server: what each refusal means. No message repeats what was sent.
 */

const MIB = 1024 * 1024;
const echo = `bad request: {"content":"${SECRET_PROMPT}"} with key ${SECRET_KEY}`;
const error = (message: string, more: object = {}) => ({
  error: { message, type: 'invalid_request_error', ...more },
});

const rows: [name: string, scenario: Scenario, expected: string, message: RegExp][] = [
  [
    '401 means refused credentials',
    (x) => x.reply(401, error(`Incorrect API key provided: ${SECRET_KEY}`)),
    'provider_unauthorised final',
    /^test refused the credentials in TEST_KEY \(status 401\)\. It says: Incorrect API key provided: \[key\]\.$/,
  ],
  [
    '403 means that the key may not do this',
    (x) => x.reply(403, error('No access')),
    'provider_forbidden final',
    /\(status 403\)\. It says: No access\.$/,
  ],
  [
    '404 with a model means an unknown model',
    (x) => x.reply(404, error('The model does not exist', { code: null })),
    'model_unknown final',
    /does not have the model "m" \(status 404\)/,
  ],
  [
    'the code of an unknown model means that with any status',
    (x) => x.reply(400, error('No', { code: 'model_not_found' })),
    'model_unknown final',
    /status 400/,
  ],
  [
    '404 without a model means a wrong address',
    (x) => x.response.writeHead(404).end('404 page not found'),
    'provider_not_found final',
    /has nothing at this address \(status 404\)\. It says: 404 page not found\.$/,
  ],
  [
    '408 may be asked again',
    (x) => x.reply(408, error('slow')),
    'provider_timed_out again',
    /status 408/,
  ],
  [
    '409 may be asked again',
    (x) => x.reply(409, error('conflict')),
    'provider_conflict again',
    /status 409/,
  ],
  [
    '429 is busy',
    (x) => x.reply(429, error('Slow down')),
    'provider_busy again',
    /had too many requests \(status 429\)\. It says: Slow down\.$/,
  ],
  [
    '500 may be asked again',
    (x) => x.reply(500, error('oops')),
    'provider_failed again',
    /status 500/,
  ],
  [
    '503 may be asked again',
    (x) => x.response.writeHead(503, 'Down').end(),
    'provider_overloaded again',
    /^test is overloaded or down \(status 503\)\.$/,
  ],
  [
    '400 means a refused request',
    (x) => x.reply(400, error('temperature must be at most 2')),
    'provider_rejected final',
    /did not accept the request \(status 400\)\. It says: temperature must be at most 2\.$/,
  ],
  [
    '422 with the message of another framework is read',
    (x) => x.reply(422, { detail: 'max_tokens: too many' }),
    'provider_rejected final',
    /It says: max_tokens: too many\.$/,
  ],
  [
    'a prompt that is too long is reported as such',
    (x) => x.reply(400, error('too long', { code: 'context_length_exceeded' })),
    'context_length_exceeded final',
    /do not fit/,
  ],
  [
    'a redirect is not followed',
    (x) => x.reply(307, {}, { location: `${x.received.path}/elsewhere` }),
    'provider_not_found final',
    /another address.*status 307/,
  ],
  [
    'a redirect to another host is not followed',
    (x) => x.reply(302, {}, { location: 'http://127.0.0.2:1/steal' }),
    'provider_not_found final',
    /status 302/,
  ],
  [
    'a message that repeats the prompt is omitted',
    (x) => x.reply(400, error(echo)),
    'provider_rejected final',
    /^test did not accept the request \(status 400\)\.$/,
  ],
  [
    'a message that repeats a piece of the prompt is omitted',
    (x) => x.reply(400, error(`input was "…${SECRET_PROMPT.slice(20, 60)}…"`)),
    'provider_rejected final',
    /\(status 400\)\.$/,
  ],
  [
    'a plain body is never shown',
    (x) => x.response.writeHead(500).end(echo),
    'provider_failed again',
    /^test failed \(status 500\)\.$/,
  ],
  [
    'a message cannot control the terminal',
    (x) => x.reply(400, error('a\u001b[2J\u202eb\r\nc')),
    'provider_rejected final',
    /It says: a \[2J b c\.$/,
  ],
  [
    'long words are cut',
    (x) => x.reply(400, error('word '.repeat(10_000))),
    'provider_rejected final',
    /^.{200,320}…$/,
  ],
  [
    'a gigantic error is not read',
    (x) => x.reply(500, error('x'.repeat(8 * MIB))),
    'provider_failed again',
    /^test failed \(status 500\)\.$/,
  ],
  [
    'an endless error is not read',
    async (x) => {
      x.response.writeHead(500);
      while (!x.socket.destroyed) await x.write('x'.repeat(65_536)).catch(() => undefined);
    },
    'provider_failed again',
    /^test failed \(status 500\)\.$/,
  ],
  [
    'gigantic headers are refused',
    (x) => x.socket.write(`HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(2 * MIB)}\r\n\r\n`),
    'provider_failed final',
    /larger headers.*UND_ERR_HEADERS_OVERFLOW/,
  ],
  [
    'an answer that is not HTTP is reported',
    (x) => x.socket.end('SSH-2.0-OpenSSH_9.2\r\n'),
    'provider_failed final',
    /does not answer in HTTP\.$/,
  ],
  [
    'a connection closed before the answer is reported',
    (x) => x.socket.end(),
    'provider_unreachable again',
    /closed the connection before it answered/,
  ],
  [
    'a connection reset before the answer is reported',
    (x) => x.socket.resetAndDestroy(),
    'provider_unreachable again',
    /closed the connection before it answered \(ECONNRESET\)/,
  ],
];

const came = ({ failure }: Outcome) =>
  failure === null ? 'complete' : `${failure.code} ${failure.retryable ? 'again' : 'final'}`;

for (const [name, scenario, expected, message] of rows) {
  test(name, async () => {
    const upstream = await Upstream.start(scenario);
    const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY' } });
    const seen = await outcome(provider);
    if (process.env.SHOW_OUTCOMES)
      console.log(`${name} | ${came(seen)} | ${seen.failure?.message.slice(0, 150)}`);
    assert.is(came(seen), expected, seen.failure?.message);
    assert.match(seen.failure?.message ?? '', message);
    assert.is(seen.text, '');
    assert.is(
      upstream.received.length,
      1,
      'it is asked once: another attempt is not for the adapter to decide',
    );
    assertSecret(seen.failure);
    await provider.close();
    await upstream.stop();
  });
}

test('the delay of a 429 answer is used', async () => {
  const waits: (number | null | undefined)[] = [];
  for (const headers of [
    { 'retry-after': '7' },
    { 'retry-after-ms': '1500', 'retry-after': '9' },
    { 'retry-after': 'soon' },
    {},
  ] as Record<string, string>[]) {
    const upstream = await Upstream.start((x) => x.reply(429, error('Slow down'), headers));
    const provider = remote(upstream.base_url);
    waits.push((await outcome(provider)).failure?.retryAfterMs);
    await provider.close();
    await upstream.stop();
  }
  assert.equal(waits, [7000, 1500, null, null]);
});

test('the error for an unreachable server has its address', async () => {
  const port = await freePort();
  await assertConnection(
    `http://127.0.0.1:${port}/v1`,
    'provider_unreachable again',
    new RegExp(`test at http://127.0.0.1:${port}/v1 refuses the connection.*ECONNREFUSED`),
  );
});

test('an unknown host name is reported', () =>
  assertConnection(
    'http://no-such-host.invalid/v1',
    'provider_address_unknown',
    /ENOTFOUND|EAI_AGAIN/,
  ));

test('TLS to a server without TLS is reported', async () => {
  const upstream = await Upstream.start();
  await assertConnection(
    upstream.base_url.replace('http:', 'https:'),
    'provider_tls_failed final',
    /does not speak TLS/,
  );
  await upstream.stop();
});

test('a missing key is reported without a request', async () => {
  const upstream = await Upstream.start();
  for (const env of [{}, { TEST_KEY: '' }, { TEST_KEY: ' \n' }]) {
    const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY' }, env });
    const seen = await outcome(provider);
    assert.is(came(seen), 'provider_unauthorised final');
    assert.match(seen.failure?.message ?? '', /variable TEST_KEY.*is not set/);
    await provider.close();
  }
  assert.equal(upstream.received, []);
  assert.is(upstream.sockets.size, 0);
  await upstream.stop();
});

test('an invalid key is reported without a request, and not shown', async () => {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url, {
    config: { key: 'env:TEST_KEY' },
    env: { TEST_KEY: `${SECRET_KEY}\r\nx-evil: 1` },
  });
  const seen = await outcome(provider);
  assert.match(seen.failure?.message ?? '', /has characters that are not valid in a key/);
  assertSecret(seen.failure);
  assert.equal(upstream.received, []);
  await upstream.stop();
});

test('each request reads the key again', async () => {
  const upstream = await Upstream.start();
  const env: NodeJS.ProcessEnv = { TEST_KEY: 'first\n' };
  const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY' }, env });
  await outcome(provider);
  env.TEST_KEY = 'second';
  await outcome(provider);
  assert.equal(
    upstream.received.map(({ headers }) => headers.authorization),
    ['Bearer first', 'Bearer second'],
  );
  await provider.close();
  await upstream.stop();
});

test('without a configured key no credentials are sent', async () => {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url, {
    env: { OPENAI_API_KEY: SECRET_KEY, TEST_KEY: SECRET_KEY },
  });
  await outcome(provider);
  assert.is(upstream.received[0]?.headers.authorization, undefined);
  assert.not.match(JSON.stringify(upstream.received), SECRET_KEY);
  await provider.close();
  await upstream.stop();
});

test('a run without a model is refused without a request', async () => {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url, { config: { model: null } });
  assert.is(came(await outcome(provider, { request: { model: '' } })), 'model_unknown final');
  assert.equal(upstream.received, []);
  await upstream.stop();
});

async function assertConnection(
  base_url: string,
  expected: string,
  message: RegExp,
  options: RemoteOptions = {},
): Promise<void> {
  const provider = remote(base_url, options);
  const seen = await outcome(provider);
  assert.ok(came(seen).startsWith(expected), `${came(seen)}: ${seen.failure?.message}`);
  assert.match(seen.failure?.message ?? '', message);
  assertSecret(seen.failure);
  await provider.close();
}

/** The error in every printed form. */
function assertSecret(failure: Error | null): void {
  const shown = [
    JSON.stringify(failure),
    inspect(failure, { depth: 20, showHidden: true, getters: true }),
    String(failure),
    failure?.message,
  ].join('\n');
  for (const secret of [SECRET_KEY, SECRET_PROMPT, SECRET_PROMPT.slice(20, 55)])
    assert.not.ok(shown.includes(secret), shown);
  assert.is(
    failure?.cause,
    undefined,
    'a cause would be logged, and the causes hold the whole request',
  );
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test('a stored key that is refused is named so, whatever the configuration names', async () => {
  const keys = {
    read: async () => SECRET_KEY,
    stored: () => 'file' as const,
    forget: async () => {},
  };
  const upstream = await Upstream.start(async (x) => x.reply(401, error('Incorrect API key')));
  const signal = new AbortController().signal;
  try {
    for (const adapter of ['openai-compatible', 'mistral'])
      for (const key of [null, 'env:TEST_KEY']) {
        const provider = remote(upstream.base_url, { config: { adapter, key }, keys });
        const failures = [
          (await outcome(provider)).failure,
          await provider.probe(signal).catch((thrown: unknown) => thrown),
          await provider.embed?.('m', ['a'], {}, signal).catch((thrown: unknown) => thrown),
        ];
        for (const failure of failures)
          assert.match(
            String((failure as Error | null)?.message),
            /^test refused its stored key \(status 401\)\. It says: Incorrect API key\.$/,
          );
        await provider.close();
      }
  } finally {
    await upstream.stop();
  }
});

test.run();
