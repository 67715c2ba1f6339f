import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter, once } from 'node:events';
import { connect, constants } from 'node:http2';
import { connect as connectTo, type Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GrpcConnections } from '../../src/grpc/connections.ts';
import { silent } from '../helpers/kernel.ts';
import { manualClock } from '../helpers/manual-clock.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from './boot.ts';
import { runtimeClient } from './runtime-client.ts';

/** Which connections are served, and which make room. */
const test = suite('connections over gRPC');

class Wire extends EventEmitter {
  readonly remoteAddress = '127.0.0.1';
  readonly remotePort: number;
  destroyed = false;

  constructor(port: number) {
    super();
    this.remotePort = port;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

const AT_ONCE = 16;
/** The least bytes of a frame that begins a call. */
const FRAME_BYTES = 9;

/** Connections that come one after the other, named by their port. The test moves their time. */
function crowd({ connections = 4, spare_connections = 4 } = {}) {
  const limits = { newcomer_ms: 1000, connections, spare_connections, connection_calls: 3 };
  const clock = manualClock();
  const all = new GrpcConnections(limits, silent, clock);
  const wires: Wire[] = [];
  const served: number[] = [];
  return {
    served,
    pass: (ms: number) => clock.advance(ms),
    come: (count: number) => {
      for (let each = 0; each < count; each += 1) {
        const wire = new Wire(wires.length);
        wires.push(wire);
        all.take(wire as unknown as Socket, () => served.push(wire.remotePort));
      }
    },
    pauseUntil: (work: Promise<unknown>) => all.pauseUntil(work),
    leave: (port: number) => wires[port]?.destroy(),
    begin: (port: number) => all.begin(`127.0.0.1:${port}`),
    hold: (port: number) => all.hold(`127.0.0.1:${port}`),
    gone: () => wires.filter(({ destroyed }) => destroyed).map(({ remotePort }) => remotePort),
    end: () => all.destroyAll(),
  };
}

const ports = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => from + index);

test('beyond those that come at once, a connection waits for its turn', () => {
  const { come, served, leave, pass, end } = crowd({ spare_connections: 100 });
  come(AT_ONCE + 3);
  assert.equal(served, ports(0, AT_ONCE));
  leave(AT_ONCE + 1);
  pass(999);
  assert.equal(served, ports(0, AT_ONCE));
  pass(1);
  assert.equal(served, ports(0, AT_ONCE + 1));
  pass(1000);
  assert.equal(served.slice(AT_ONCE), [AT_ONCE, AT_ONCE + 2]);
  end();
});

test('no turn begins while the library loads, and the pace is kept after it', async () => {
  const { come, pauseUntil, pass, served, end } = crowd({ spare_connections: 100 });
  const loading = Promise.withResolvers<void>();
  pauseUntil(loading.promise);
  come(AT_ONCE + 3);
  pass(1e6);
  assert.equal(served, []);
  loading.reject(new Error('this one cannot be loaded'));
  await waitFor('turns begin', () => served.length > 0);
  assert.equal(served, ports(0, AT_ONCE));
  pass(1000);
  assert.equal(served, ports(0, AT_ONCE + 1));
  end();
});

test('a client that shows the token gives its turn to the next one, once', () => {
  const { come, served, hold, end } = crowd({ connections: 100, spare_connections: 100 });
  come(AT_ONCE + 3);
  hold(0)();
  hold(0)();
  assert.equal(served, ports(0, AT_ONCE + 1));
  hold(1);
  assert.equal(served, ports(0, AT_ONCE + 2));
  end();
});

test('calls without a token take the turns of new connections', () => {
  const { come, served, begin, end } = crowd({ spare_connections: 100 });
  come(AT_ONCE - 2);
  for (let port = 0; port < 4; port += 1) for (let call = 0; call < 3; call += 1) begin(port);
  come(2);
  assert.equal(served, ports(0, AT_ONCE - 2), 'twelve calls cost more than one connection');
  end();
});

test('a connection may begin some calls without a token, and any number with it', () => {
  const { come, begin, hold, end } = crowd();
  come(2);
  assert.equal([begin(0), begin(0), begin(0), begin(0)], [true, true, true, false]);
  hold(1)();
  assert.equal([begin(1), begin(1), begin(1), begin(1)], [true, true, true, true]);
  end();
});

test('the oldest without a token makes room, then the oldest that asked nothing for long', () => {
  const { come, hold, gone, end } = crowd();
  come(8);
  hold(0);
  hold(1)();
  come(1);
  assert.equal(gone(), [2]);
  hold(3)();
  hold(4)();
  hold(5)();
  come(1);
  assert.equal(gone(), [1, 2], 'the four without a token keep their places');
  end();
});

test('if all that could make room wait for their turn, a new one is refused', () => {
  const { come, begin, hold, gone, end } = crowd({ connections: AT_ONCE, spare_connections: 4 });
  come(AT_ONCE);
  for (const port of ports(0, AT_ONCE)) {
    for (let call = 0; call < 10; call += 1) begin(port);
    hold(port);
  }
  come(4);
  assert.equal(gone(), []);
  come(1);
  assert.equal(gone(), [AT_ONCE + 4]);
  end();
});

test('a client that begins too many calls is asked to be calm, beside one that is served', async () => {
  const refused: string[] = [];
  const grpc = await serve({
    limits: { connection_calls: 2 },
    onRefused: (code) => refused.push(code),
  });
  const known = runtimeClient(grpc.address);
  for (let call = 0; call < 5; call += 1) await known.ask('List');
  const client = connect(`http://${grpc.address}`);
  const calm = once(client, 'goaway');
  client.on('error', () => {});
  for (let call = 0; call < 6; call += 1)
    client
      .request({ ':method': 'POST', ':path': '/grpc.health.v1.Health/Check' })
      .on('error', () => {})
      .resume();
  assert.is((await calm)[0], constants.NGHTTP2_ENHANCE_YOUR_CALM);
  assert.equal(refused, ['connection_calls']);
  await known.ask('List');
  known.close();
  client.destroy();
  await grpc.close();
});

test('calls that were sent before the turn of their connection are no more than others', async () => {
  let made = 0;
  const count = () => {
    made += 1;
  };
  subscribe('http2.server.stream.created', count);
  const clock = manualClock();
  const grpc = await serve({ limits: { connection_calls: 2, newcomer_ms: 200 }, clock });
  const [host = '', port] = grpc.address.split(':');
  const first = Array.from({ length: AT_ONCE }, () => connectTo(Number(port), host));
  await Promise.all(first.map((socket) => once(socket, 'connect')));
  const wire = connectTo(Number(port), host);
  const client = connect(`http://${grpc.address}`, { createConnection: () => wire });
  client.on('error', () => {});
  for (let call = 0; call < 50; call += 1)
    client
      .request({
        ':method': 'POST',
        ':path': '/svc.runtime.v1.Runtime/List',
        'content-type': 'application/grpc',
      })
      .on('error', () => {})
      .resume();
  const least = 50 * FRAME_BYTES;
  await waitFor('all calls are sent', () => wire.bytesWritten > least && wire.writableLength === 0);
  clock.advance(200);
  await new Promise((resolve) => client.once('close', resolve));
  unsubscribe('http2.server.stream.created', count);
  assert.is(made, 3, 'no stream is made after the one that is too many');
  for (const socket of first) socket.destroy();
  await grpc.close();
});

test.run();
