import type { AddressInfo, Socket } from 'node:net';
import { createServer } from 'node:net';
import { fetch } from 'undici';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createDispatcher } from '../../src/http-client/dispatcher.ts';
import { defaultLimits } from '../../src/limits.ts';

/** A server that ends its connection while the reader of the answer is slow. */

const BODY = Buffer.alloc(3_000_000, 'x');

for (const [name, head] of [
  ['a length', `HTTP/1.0 200 OK\r\nContent-Length: ${BODY.length}\r\n\r\n`],
  ['no length', 'HTTP/1.0 200 OK\r\n\r\n'],
  [
    'Connection: close',
    `HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ${BODY.length}\r\n\r\n`,
  ],
] as const)
  test(`an answer with ${name} is read whole, also after its connection has ended`, async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.once('data', () => socket.end(Buffer.concat([Buffer.from(head), BODY])));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const dispatcher = await createDispatcher({
      env: {},
      limits: defaultLimits,
      proxyError: 'pull_failed',
    });
    try {
      const { body } = await fetch(`http://127.0.0.1:${port}/`, { dispatcher });
      let bytes = 0;
      for await (const chunk of body ?? []) {
        bytes += chunk.length;
        // Other work between two reads, in which the end of the connection comes.
        for (let turn = 0; turn < 20; turn += 1) await new Promise((next) => setImmediate(next));
      }
      assert.is(bytes, BODY.length);
    } finally {
      await dispatcher.destroy();
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });

test.run();
