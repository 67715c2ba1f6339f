import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Listener, Listeners } from '../../src/daemon/transports.ts';
import { SvcError } from '../../src/errors.ts';

/** A machine where these ports are taken; other codes say why a port is refused. */
function machine(taken: Readonly<Record<number, string>>): Record<'http' | 'grpc', Listener> {
  const listen = async (host: string, port: number) => {
    const code = taken[port];
    if (code !== undefined)
      throw new SvcError(code as 'port_in_use', `Another program listens on ${host}:${port}.`);
    return `${host}:${port === 0 ? 50_000 : port}`;
  };
  return {
    http: { listen: async (host, port) => `http://${await listen(host, port)}` },
    grpc: { listen },
  };
}

function listeners(taken: Readonly<Record<number, string>>, source = 'default') {
  return new Listeners(machine(taken), {
    http: '127.0.0.1:4780',
    grpc: '127.0.0.1:4781',
    sources: { http: source as 'default', grpc: source as 'default' },
  });
}

const others = (...ports: number[]) => Object.fromEntries(ports.map((port) => [port, TAKEN]));
const TAKEN = 'port_in_use';

test('the default addresses come first, and need no warning', async () => {
  const bound = listeners({});
  assert.equal(await bound.bind(), { http: 'http://127.0.0.1:4780', grpc: '127.0.0.1:4781' });
  assert.is(bound.warning(), null);
});

test('a default address that is taken gives way to the nearest free one, and both are named', async () => {
  const http = listeners(others(4780, 4782));
  assert.equal(await http.bind(), { http: 'http://127.0.0.1:4784', grpc: '127.0.0.1:4781' });
  assert.match(
    http.warning() ?? '',
    /^Another program listens on 127\.0\.0\.1:4780, so svc is at 127\.0\.0\.1:4784 \(HTTP\)\. .* svc config set http 127\.0\.0\.1:4784$/,
  );
  const both = listeners(others(4780, 4781));
  await both.bind();
  assert.match(
    both.warning() ?? '',
    'listens on 127.0.0.1:4780 and 127.0.0.1:4781, so svc is at 127.0.0.1:4782 (HTTP) and 127.0.0.1:4783 (gRPC).',
  );
});

test('with all near ones taken it is any free port', async () => {
  const near = Array.from({ length: 40 }, (_, at) => 4780 + at);
  const { http, grpc } = await listeners(others(...near)).bind();
  assert.equal([http, grpc], ['http://127.0.0.1:50000', '127.0.0.1:50000']);
});

test('a default address that the system refuses gives way too', async () => {
  const bound = listeners({ 4781: 'address_refused' });
  assert.is((await bound.bind()).grpc, '127.0.0.1:4783');
  assert.match(bound.warning() ?? '', /^svc cannot listen on 127\.0\.0\.1:4781, so/);
});

test('an address that was asked for stays an error, which says how to take another', async () => {
  for (const [source, hint] of [
    ['file', /svc config set grpc 127\.0\.0\.1:0$/],
    ['flag', /svc config set grpc 127\.0\.0\.1:0, without --grpc$/],
    ['environment', /svc config set grpc 127\.0\.0\.1:0, without the variable SVC_GRPC$/],
  ] as const) {
    const error = await listeners(others(4781), source)
      .bind()
      .catch((thrown: unknown) => thrown);
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'port_in_use');
    assert.match((error as SvcError).hint, hint);
  }
});

test.run();
