import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Dispatcher } from 'undici';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Incoming } from '../../src/http-client/incoming.ts';
import { waitFor } from '../helpers/wait.ts';

/** Asks a server, and works with its response. The connection closes at the end. */
async function ask(
  answer: (response: ServerResponse) => void,
  work: (incoming: Incoming) => Promise<void>,
): Promise<void> {
  const { Agent } = await import('undici');
  const server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const agent = new Agent({ connections: 1 });
  const incoming = new Incoming();
  const { port } = server.address() as AddressInfo;
  agent.dispatch({ origin: `http://127.0.0.1:${port}`, path: '/', method: 'GET' }, incoming);
  await work(incoming);
  await agent.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

async function textOf(incoming: Incoming): Promise<string> {
  let text = '';
  for await (const chunk of incoming) text += Buffer.from(chunk).toString();
  return text;
}

test('what came before the read is read together, although each chunk of it came alone', () =>
  ask(
    (response) => {
      const chunks = Array.from({ length: 20 }, (_, index) => `${index};`);
      const framed = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
      response.socket?.write(
        `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${framed}0\r\n\r\n`,
      );
    },
    async (incoming) => {
      assert.is((await incoming.head()).status, 200);
      const read = await incoming.read();
      assert.is(read?.length, 20);
      assert.is(await incoming.read(), null);
    },
  ));

test('a server that sends faster than its reader waits for it', () =>
  ask(
    (response) => {
      response.writeHead(200);
      const more = () => {
        while (response.write(Buffer.alloc(64 * 1024)));
        response.once('drain', more);
      };
      more();
    },
    async (incoming) => {
      const asked = Promise.withResolvers<Dispatcher.DispatchController>();
      const begin = incoming.onResponseStart.bind(incoming);
      incoming.onResponseStart = (controller, ...head) => {
        asked.resolve(controller);
        begin(controller, ...head);
      };
      const controller = await asked.promise;
      await waitFor('the connection is not read', () => controller.paused);
      const [first, second] = [await incoming.read(), await incoming.read()];
      for (const read of [first, second]) {
        const bytes = (read ?? []).reduce((sum, chunk) => sum + chunk.length, 0);
        assert.ok(bytes > 0 && bytes < 1024 * 1024, `${bytes} bytes at one time`);
      }
    },
  ));

test('an abort drops what was not read, and closes the connection', async () => {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  await ask(
    (response) => void response.once('close', resolve).writeHead(200).write('begin'),
    async (incoming) => {
      await incoming.head();
      const reason = new Error('given up');
      incoming.abort(reason);
      assert.is(await incoming.read().catch((thrown: unknown) => thrown), reason);
      await closed;
    },
  );
});

test('a connection that breaks is an error, after all that came before', () =>
  ask(
    (response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('begin', () => response.socket?.destroy());
    },
    async (incoming) => {
      await incoming.head();
      assert.is(Buffer.concat((await incoming.read()) ?? []).toString(), 'begin');
      const thrown = await textOf(incoming).catch((error: Error) => error);
      assert.instance(thrown, Error);
    },
  ));

test('the rest of a response is dropped until it ends, breaks, is late or has too much', async () => {
  const drained = (answer: (response: ServerResponse) => void, ms: number) =>
    new Promise<boolean>((resolve, reject) => {
      ask(answer, async (incoming) => resolve(await incoming.drain(ms))).catch(reject);
    });
  assert.is(await drained((response) => response.end('rest'), 60_000), true);
  assert.is(await drained((response) => void response.write('rest'), 1), false);
  assert.is(await drained((response) => void response.socket?.resetAndDestroy(), 60_000), false);
  assert.is(await drained((response) => response.end('x'.repeat(1_000_000)), 60_000), false);
});

test.run();
