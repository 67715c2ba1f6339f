import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcome, remote, runRequest } from '../../helpers/remote.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { type Exchange, Upstream } from '../../helpers/upstream.ts';
import { waitFor } from '../../helpers/wait.ts';

/** An abandoned attempt ends with its iteration: the server has lost its connection and stops. */

/**
 * Where the system shows it: client connections to the port that are still open. While the table
 * changes, a reader of it may see a line twice, or miss one.
 */
function connected(port: number): number {
  if (process.platform !== 'linux') return 0;
  const server = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const established = '01';
  const clients = new Set<string | undefined>();
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n')) {
    const [, local_address, remote_address, state] = line.trim().split(/\s+/);
    if (remote_address === server && state === established) clients.add(local_address);
  }
  return clients.size;
}

async function serve(
  scenario: (exchange: Exchange) => unknown,
): Promise<{ upstream: Upstream; asked: Promise<Exchange> }> {
  let take: (exchange: Exchange) => void = () => undefined;
  const asked = new Promise<Exchange>((resolve) => {
    take = resolve;
  });
  const upstream = await Upstream.start((exchange) => {
    take(exchange);
    return scenario(exchange);
  });
  return { upstream, asked };
}

test('an abort before the headers ends the attempt, and the server loses the connection', async () => {
  const { upstream, asked } = await serve(() => undefined);
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const running = outcome(provider, { signal: abort.signal });
  const exchange = await asked;
  if (process.platform === 'linux')
    await waitFor('the system shows the connection', () => connected(upstream.port) === 1);
  abort.abort();
  const seen = await running;
  assert.is(connected(upstream.port), 0, 'the connection is gone when the iteration has ended');
  assert.equal(seen, { text: '', parts: [], finish: null, failure: null });
  await exchange.closed;
  await provider.close();
  await upstream.stop();
});

test('when the provider closes before the headers or within the answer, the failure says that it was removed', async () => {
  for (const delivered of ['', 'Hel']) {
    const { upstream, asked } = await serve(async (x) => {
      if (delivered === '') return;
      x.open();
      await x.text(delivered);
    });
    const provider = remote(upstream.base_url);
    const { promise: heard, resolve } = Promise.withResolvers<unknown>();
    const running = outcome(provider, { onText: resolve });
    await (delivered === '' ? asked : heard);
    await provider.close();
    const { text, failure } = await running;
    assert.is(text, delivered);
    assert.match(failure?.message ?? '', /^test.* was removed /);
    assert.not.match(failure?.message ?? '', /UND_ERR/);
    await upstream.stop();
  }
});

test('an abort within the answer ends with the delivered text, and the server loses the connection', async () => {
  const { upstream, asked } = await serve(async (x) => {
    x.open();
    await x.text('Hel');
  });
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const seen = await outcome(provider, {
    signal: abort.signal,
    onText: () => abort.abort(new Error('of its own')),
  });
  assert.is(connected(upstream.port), 0, 'the connection is gone when the iteration has ended');
  assert.equal(seen, { text: 'Hel', parts: [], finish: null, failure: null });
  await (await asked).closed;
  await provider.close();
  await upstream.stop();
});

test('an abort ends the attempt while a server sends at full speed', async () => {
  const { upstream, asked } = await serve(async (x) => {
    x.open();
    while (!x.socket.destroyed) await x.text('word ').catch(() => undefined);
  });
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const heard: string[] = [];
  const onText = (text: string) => {
    heard.push(text);
    abort.abort();
  };
  const seen = await outcome(provider, { signal: abort.signal, onText });
  assert.is(connected(upstream.port), 0);
  assert.is(heard.length, 1);
  assert.match(heard[0] ?? '', /^(word )+$/);
  assert.equal(
    seen,
    { text: heard[0], parts: [], finish: null, failure: null },
    'nothing is delivered after it was given up',
  );
  await (await asked).closed;
  await provider.close();
  await upstream.stop();
});

test('an abort within the body of an error ends the attempt', async () => {
  const begun = gate();
  const { upstream, asked } = await serve((x) => {
    x.response.writeHead(500, { 'content-type': 'application/json' });
    x.response.write('{"error":', () => begun.open());
  });
  const provider = remote(upstream.base_url);
  const abort = new AbortController();
  const running = outcome(provider, { signal: abort.signal });
  await begun.opened;
  abort.abort();
  assert.equal(await running, { text: '', parts: [], finish: null, failure: null });
  assert.is(connected(upstream.port), 0);
  await (await asked).closed;
  await provider.close();
  await upstream.stop();
});

test('an abort before the start sends no request', async () => {
  const { upstream } = await serve((x) => x.answer('Hello'));
  const provider = remote(upstream.base_url);
  assert.equal(await outcome(provider, { signal: AbortSignal.abort() }), {
    text: '',
    parts: [],
    finish: null,
    failure: null,
  });
  assert.equal(upstream.received, []);
  await provider.close();
  await upstream.stop();
});

test('a reader that leaves ends the answer', async () => {
  const { upstream, asked } = await serve(async (x) => {
    x.open();
    await x.text('Hel');
  });
  const provider = remote(upstream.base_url);
  for await (const _ of provider.stream(
    { run_id: 'run_1', attempt: 1, request: runRequest(), resume: null },
    new AbortController().signal,
  ))
    break;
  assert.is(connected(upstream.port), 0, 'the connection is gone when the loop has been left');
  await (await asked).closed;
  await provider.close();
  await upstream.stop();
});

test('a failed answer leaves no connection open', async () => {
  const { upstream, asked } = await serve(async (x) => {
    x.open();
    await x.event('not json');
  });
  const provider = remote(upstream.base_url);
  assert.is((await outcome(provider)).failure?.code, 'stream_garbled');
  assert.is(connected(upstream.port), 0);
  await (await asked).closed;
  await provider.close();
  await upstream.stop();
});

test('the run machine decides how long a slow server may take', async () => {
  const { upstream } = await serve(async (x) => {
    for (const byte of Buffer.from(
      'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n',
    ))
      await new Promise((resolve) => x.socket.write(Buffer.of(byte), resolve));
    for (const part of [
      'data: {"choices":[{"index":0,"delta":{"content":"Hel',
      'lo"}}]}\n',
      '\n: wait\n\n',
      'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    ]) {
      await new Promise((resolve) => x.socket.write(part, resolve));
      await new Promise((resolve) => setImmediate(resolve));
    }
    x.socket.end();
  });
  const provider = remote(upstream.base_url);
  const seen = await outcome(provider);
  assert.is(seen.text, 'Hello');
  assert.is(seen.finish?.finish_reason, 'stop');
  await provider.close();
  await upstream.stop();
});

test('closing ends the attempts in progress', async () => {
  const { upstream, asked } = await serve(async (x) => {
    x.open();
    await x.text('Hel');
  });
  const provider = remote(upstream.base_url);
  const heard = gate();
  const running = outcome(provider, { onText: heard.open });
  await heard.opened;
  await provider.close();
  assert.is((await running).failure?.code, 'stream_truncated');
  await (await asked).closed;
  await waitFor('the server has no connection', () => upstream.sockets.size === 0);
  await upstream.stop();
});

test('a hundred abandoned attempts leave nothing behind', async () => {
  const { upstream } = await serve(async (x) => {
    x.open();
    await x.text('Hel');
  });
  const provider = remote(upstream.base_url);
  const one = () => {
    const abort = new AbortController();
    return outcome(provider, { signal: abort.signal, onText: () => abort.abort() });
  };
  for (const seen of await Promise.all(Array.from({ length: 100 }, one)))
    assert.is(seen.failure, null);
  assert.is(connected(upstream.port), 0);
  await waitFor('the server has no connection', () => upstream.sockets.size === 0);
  await provider.close();
  await upstream.stop();
});

test.run();
