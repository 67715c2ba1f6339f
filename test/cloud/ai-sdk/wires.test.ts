import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Asking } from '../../helpers/asking.ts';
import { outcome, remote, SECRET_KEY, SECRET_PROMPT } from '../../helpers/remote.ts';
import { type Exchange, type Scenario, Upstream } from '../../helpers/upstream.ts';
import { bytesOf, type Wire, wires } from '../../helpers/wires.ts';

/** Every family of adapters against a server that speaks its wire format. */

/** Not every protocol has a seed. */
const UNSEEDED: Asking = { seed_asked: false };
const LOOK: Asking = {
  tools: [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }],
};

async function ask(wire: Wire, scenario: Scenario, request: Asking = {}) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', ...wire.config } });
  try {
    const seen = await outcome(provider, { request: { ...UNSEEDED, ...request } });
    return { ...seen, received: upstream.received, sockets: upstream.sockets };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

/** Sends chunks and leaves the response open. */
const send = (wire: Wire, chunks: readonly string[]) => async (x: Exchange) => {
  x.open({ 'content-type': wire.type });
  for (const bytes of bytesOf(wire, chunks)) await x.write(bytes);
};

const answer = (wire: Wire, chunks: readonly string[]) => async (x: Exchange) => {
  await send(wire, chunks)(x);
  x.end();
};

const called = (id: string, written: string) =>
  ({ type: 'tool_call', id, name: 'look', arguments: written }) as const;
const resultOf = (id: string) =>
  ({ type: 'tool_result', id, text: 'Seen.', is_error: false }) as const;

/** The arguments of all calls in a body, which each protocol has elsewhere. */
function argumentsIn(body: unknown): unknown[] {
  if (typeof body !== 'object' || body === null) return [];
  return Object.entries(body).flatMap(([key, value]) => {
    if (!['args', 'arguments', 'input'].includes(key) || Array.isArray(value))
      return argumentsIn(value);
    return [typeof value === 'string' ? JSON.parse(value) : value];
  });
}

for (const [name, wire] of Object.entries(wires)) {
  const { begin, text, call, reasoning } = wire;

  test(`${name}: text and usage arrive, with the key in its header`, async () => {
    const chunks = [...begin, ...text, ...wire.end(false)];
    const { failure, finish, received, ...seen } = await ask(wire, answer(wire, chunks));
    assert.is(failure, null, failure?.message);
    assert.is(seen.text, 'Hello');
    assert.is(finish?.finish_reason, 'stop');
    assert.is(finish?.usage.input_tokens, 3);
    assert.is(finish?.usage.output_tokens, 5);
    assert.is(received[0]?.path.split('?')[0], wire.path);
    assert.match(String(received[0]?.headers[wire.keyHeader]), SECRET_KEY);
    assert.match(received[0]?.body ?? '', SECRET_PROMPT);
  });

  test(`${name}: reasoning and a tool call arrive`, async () => {
    const chunks = [...begin, ...reasoning, ...text, ...call, ...wire.end(true)];
    const { failure, finish, parts } = await ask(wire, answer(wire, chunks), LOOK);
    assert.is(failure, null, failure?.message);
    assert.is(finish?.finish_reason, 'tool_calls');
    const [called] = parts.filter((part) => part.type === 'tool_call');
    assert.is(called?.type === 'tool_call' && called.name, 'look');
    assert.equal(JSON.parse(called?.type === 'tool_call' ? called.arguments : ''), { at: 1 });
    const thought = parts.filter((part) => part.type === 'reasoning');
    assert.equal(thought, wire.hasReasoning ? [{ type: 'reasoning', text: 'Hm.' }] : []);
  });

  test(`${name}: arguments that are no object are sent as one that says so`, async () => {
    const written = ['{bad', '[1]', '"{}"', '{"at":1}', ''];
    const calls = written.map((text, index) => called(`c${index}`, text));
    const messages: Asking['messages'] = [
      { role: 'user', content: [{ type: 'text', text: 'Look.' }] },
      { role: 'assistant', content: calls },
      { role: 'tool', content: calls.map(({ id }) => resultOf(id)) },
    ];
    const chunks = [...begin, ...text, ...wire.end(false)];
    const { failure, received } = await ask(wire, answer(wire, chunks), { ...LOOK, messages });
    assert.is(failure, null, failure?.message);
    assert.equal(argumentsIn(JSON.parse(received[0]?.body ?? '')), [
      { INVALID_JSON: '{bad' },
      { INVALID_JSON: '[1]' },
      { INVALID_JSON: '"{}"' },
      { at: 1 },
      {},
    ]);
  });

  const whole = [...begin, ...text, ...wire.end(false)];
  const start = [...begin, ...text];
  const cuts: [what: string, scenario: Scenario][] = [
    ['ends before its finish', answer(wire, start)],
    ['ends inside an event', answer(wire, [...start, (wire.end(false)[0] ?? '').slice(0, 20)])],
    [
      'breaks off',
      async (x) => {
        await send(wire, start)(x);
        x.socket.destroy();
      },
    ],
    [
      'is reset',
      async (x) => {
        await send(wire, start)(x);
        x.socket.resetAndDestroy();
      },
    ],
    [
      'has an error and then a normal end',
      answer(wire, [...start, wire.error, ...wire.end(false)]),
    ],
    [
      'has garbage and then a normal end',
      answer(wire, [...start, wire.broken, ...wire.end(false)]),
    ],
    ['is empty', answer(wire, [])],
    [
      'is a web page',
      (x) => void x.open({ 'content-type': 'text/html' }).response.end('<!doctype html>'),
    ],
    ['is another document', (x) => x.reply(200, { result: 'Hello' })],
    ['is an error with a success status', (x) => x.reply(200, { error: { message: 'no' } })],
  ];
  for (const [what, scenario] of cuts)
    test(`${name}: an answer that ${what} is a failure`, async () => {
      const { failure, finish } = await ask(wire, scenario);
      assert.is(finish, null);
      assert.ok(failure !== null);
      assert.ok(
        [
          'stream_truncated',
          'provider_failed',
          'provider_busy',
          'stream_garbled',
          'provider_overloaded',
          'provider_timed_out',
          'provider_not_found',
        ].includes(failure.code),
        failure.code,
      );
      assertNoSecrets(failure);
    });

  test(`${name}: an abort closes the connection`, async () => {
    const abort = new AbortController();
    let closed: Promise<void> | undefined;
    const upstream = await Upstream.start(async (x) => {
      closed = x.closed;
      await send(wire, start)(x);
    });
    const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', ...wire.config } });
    const seen = await outcome(provider, {
      signal: abort.signal,
      request: UNSEEDED,
      onText: () => abort.abort(),
    });
    assert.is(seen.failure, null);
    assert.is(seen.finish, null);
    await closed;
    await provider.close();
    await upstream.stop();
  });

  for (const [status, code] of [
    [401, 'provider_unauthorised'],
    [403, 'provider_forbidden'],
    [429, 'provider_busy'],
    [500, 'provider_failed'],
  ] as const)
    test(`${name}: the status ${status} is ${code}`, async () => {
      const message = `wrong: ${SECRET_KEY} ${SECRET_PROMPT}`;
      const { failure } = await ask(wire, (x) =>
        x.reply(status, { error: { message } }, { 'retry-after': '7' }),
      );
      assert.is(failure?.code, code);
      assert.is(failure?.status, status);
      if (status === 429) assert.is(failure?.retryAfterMs, 7000);
      assertNoSecrets(failure as Error);
    });

  test(`${name}: a model that is not there is named`, async () => {
    const { failure } = await ask(wire, (x) =>
      x.reply(404, { error: { message: 'no such model', code: 'model_not_found' } }),
    );
    assert.is(failure?.code, 'model_unknown');
  });

  test(`${name}: what cannot be asked is refused before any output, by its name`, async () => {
    const { failure, text: seen } = await ask(wire, answer(wire, whole), { logprobs: 2 });
    assert.is(failure?.code, 'capability_missing');
    assert.is(failure?.param, 'logprobs');
    assert.is(seen, '');
  });
}

test('a setting that a package leaves out is refused before any output', async () => {
  const wire = wires.anthropic as Wire;
  const chunks = [...wire.begin, ...wire.text, ...wire.end(false)];
  const { failure, text, finish } = await ask(wire, answer(wire, chunks), {
    seed: 7,
    seed_asked: true,
    frequency_penalty: 1,
  });
  assert.is(failure?.code, 'capability_missing');
  assert.match(failure?.message ?? '', /cannot be asked for (frequency_penalty|seed)/);
  assert.is(text, '');
  assert.is(finish, null);
});

/** No error repeats the key or the prompt, in any of its fields. */
function assertNoSecrets(failure: Error): void {
  const { cause: _, ...fields } = failure;
  const shown = `${failure.message} ${failure.stack} ${JSON.stringify(fields)}`;
  assert.not.match(shown, SECRET_KEY);
  assert.not.match(shown, SECRET_PROMPT.slice(0, 20));
}

test.run();
