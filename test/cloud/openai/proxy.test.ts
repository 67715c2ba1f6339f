import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcome, remote, SECRET_KEY } from '../../helpers/remote.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { Upstream } from '../../helpers/upstream.ts';

/** A proxy that tunnels every name to one port of this machine, and records the requested names. */
class Tunnel {
  readonly tunnels: string[] = [];
  readonly status: number;
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();

  constructor(port: number, status = 200) {
    this.status = status;
    this.server = createServer().on('connect', (request, socket, head) =>
      this.join(request, socket as Socket, head, port),
    );
    this.server.on('connection', (socket) => this.sockets.add(socket.on('error', () => undefined)));
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** All connections opened to it so far. */
  get touched(): number {
    return this.sockets.size;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private join({ url = '' }: IncomingMessage, socket: Socket, head: Buffer, port: number): void {
    this.tunnels.push(url);
    if (this.status !== 200)
      return void socket.end(`HTTP/1.1 ${this.status} No\r\ncontent-length: 0\r\n\r\n`);
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.write(head);
      socket.pipe(onward).pipe(socket);
    });
    onward.on('error', () => socket.destroy());
    socket.on('close', () => onward.destroy());
  }
}

const elsewhere = 'http://provider.invalid/v1';

async function withProxy(
  work: (proxy: Tunnel, address: string, upstream: Upstream) => Promise<void>,
  status = 200,
): Promise<void> {
  const upstream = await Upstream.start();
  const proxy = new Tunnel(upstream.port, status);
  await work(proxy, await proxy.start(), upstream);
  await proxy.stop();
  await upstream.stop();
}

test('requests to this machine never use a proxy', () =>
  withProxy(async (proxy, address, upstream) => {
    const env = {
      HTTP_PROXY: address,
      HTTPS_PROXY: address,
      http_proxy: address,
      https_proxy: address,
      ALL_PROXY: address,
    };
    for (const host of ['127.0.0.1', 'localhost', '127.0.0.2']) {
      const provider = remote(`http://${host}:${upstream.port}/v1`, { env });
      const { text, failure } = await outcome(provider);
      assert.ok(text === 'Hello' || host !== '127.0.0.1', failure?.message);
      await provider.close();
    }
    assert.is(proxy.touched, 0);
  }));

test('requests to other machines use the proxy of the environment', () =>
  withProxy(async (proxy, address) => {
    const provider = remote(elsewhere, {
      config: { key: 'env:KEY' },
      env: { HTTP_PROXY: address, KEY: SECRET_KEY },
    });
    const { text, failure } = await outcome(provider);
    assert.is(text, 'Hello', failure?.message);
    assert.equal(proxy.tunnels, ['provider.invalid:80']);
    await provider.close();
  }));

test('an address that the environment excepts is requested directly', () =>
  withProxy(async (proxy, address) => {
    const provider = remote(elsewhere, {
      env: { HTTP_PROXY: address, NO_PROXY: 'example.org,provider.invalid' },
    });
    assert.is((await outcome(provider)).failure?.code, 'provider_address_unknown');
    assert.is(proxy.touched, 0);
    await provider.close();
  }));

test('one entry of NO_PROXY that excepts everything counts beside others', () =>
  withProxy(async (proxy, address) => {
    for (const NO_PROXY of ['*', 'example.org, *']) {
      const provider = remote(elsewhere, { env: { ALL_PROXY: address, NO_PROXY } });
      assert.is((await outcome(provider)).failure?.code, 'provider_address_unknown');
      await provider.close();
    }
    assert.is(proxy.touched, 0);
    const provider = remote(elsewhere, { env: { ALL_PROXY: address, NO_PROXY: '192.0.2.0/24' } });
    assert.is((await outcome(provider)).text, 'Hello');
    await provider.close();
  }));

test('the proxy comes from the given environment, not from that of the process', () =>
  withProxy(async (proxy, address) => {
    const before = process.env.HTTP_PROXY;
    process.env.HTTP_PROXY = address;
    const provider = remote(elsewhere, { env: {} });
    assert.is((await outcome(provider)).failure?.code, 'provider_address_unknown');
    assert.is(proxy.touched, 0);
    await provider.close();
    if (before === undefined) delete process.env.HTTP_PROXY;
    else process.env.HTTP_PROXY = before;
  }));

test('a proxy that refuses is reported without its address', () =>
  withProxy(async (_, address) => {
    const provider = remote(elsewhere, {
      env: { HTTP_PROXY: address.replace('//', '//user:proxy-password@') },
    });
    const { failure } = await outcome(provider);
    assert.is(failure?.code, 'provider_unreachable');
    assert.match(failure?.message ?? '', /through the proxy of the environment/);
    assert.not.match(failure?.message ?? '', /proxy-password|127\.0\.0\.1/);
    await provider.close();
  }, 407));

test('a proxy variable that is not an address is reported', async () => {
  const provider = remote(elsewhere, { env: { HTTPS_PROXY: 'proxy-password@:::' } });
  const { failure } = await outcome(provider);
  assert.is(failure?.code, 'provider_unreachable');
  assert.is(failure?.message, 'The variable HTTPS_PROXY of the environment is not an address.');
  await provider.close();
});

test('a silent proxy does not delay an abort', async () => {
  const asked = gate();
  const closed = gate();
  const silent = createNetServer((socket) => {
    socket.on('close', closed.open).once('data', asked.open);
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const provider = remote(elsewhere, {
    env: { HTTP_PROXY: `http://127.0.0.1:${(silent.address() as AddressInfo).port}` },
  });
  const abort = new AbortController();
  const running = outcome(provider, { signal: abort.signal });
  await asked.opened;
  abort.abort();
  assert.equal(await running, { text: '', parts: [], finish: null, failure: null });
  await closed.opened;
  await provider.close();
  await new Promise((resolve) => silent.close(resolve));
});

test.run();
