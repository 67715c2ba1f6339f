import { createServer, type Server } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';

interface Context {
  home: Home;
  others: Server[];
}

const test = suite<Context>('a taken port');

test.before.each(async (context) => {
  // The default addresses, as a newcomer has them.
  context.home = makeHome({ SVC_HTTP: undefined, SVC_GRPC: undefined });
  context.others = await Promise.all([4780, 4781].map(take));
});
test.after.each(async ({ home, others }) => {
  await home.close();
  for (const other of others) other.close();
});

/** Takes a port, unless a program of this machine has it already. */
function take(port: number): Promise<Server> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(server));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

const MOVED =
  /warning: Another program listens on 127\.0\.0\.1:4780 and 127\.0\.0\.1:4781, so svc is at 127\.0\.0\.1:(\d+) \(HTTP\) and 127\.0\.0\.1:(\d+) \(gRPC\)\./;

test('the first command answers, and says once where the daemon is', async ({ home }) => {
  const first = await home.svc(['run', 'How do I see the last log lines?']);
  assert.is(first.code, 0, first.stderr);
  assert.match(first.stdout, 'svc logs');
  const [, http, grpc] = MOVED.exec(first.stderr) ?? [];
  assert.ok(http !== undefined, first.stderr);
  const second = await home.svc(['run', 'How do I stop the daemon?']);
  assert.not.match(second.stderr, MOVED);

  const { addresses, warning } = JSON.parse((await home.svc(['status', '--json'])).stdout);
  assert.is(addresses.http, `http://127.0.0.1:${http}`);
  assert.is(addresses.grpc, `127.0.0.1:${grpc}`);
  assert.match(warning, '127.0.0.1:4780');
  const token = (await home.svc(['token'])).stdout.trim();
  const answer = await fetch(`${addresses.http}/v1/models`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.is(answer.status, 200);
  assert.match((await home.svc(['console', '--no-open'])).stdout, addresses.http);
  const doctor = JSON.parse((await home.svc(['doctor', '--json'])).stdout);
  const listeners = doctor.checks.find(({ name }: { name: string }) => name === 'listeners');
  assert.is(listeners.status, 'warn');
  assert.match(listeners.detail, `127.0.0.1:${http}`);
});

test('start and the console do so too', async ({ home }) => {
  const started = await home.svc(['start']);
  assert.is(started.code, 0, started.stderr);
  assert.match(started.stderr, MOVED);
  assert.is((await home.svc(['stop'])).code, 0);
  const opened = await home.svc(['console', '--no-open']);
  assert.is(opened.code, 0, opened.stderr);
  const [, http] = MOVED.exec(opened.stderr) ?? [];
  assert.match(opened.stdout, `http://127.0.0.1:${http}/`);
  assert.is((await home.svc(['stop'])).code, 0);
  const refused = await home.svc(['console', '--no-open', '--no-start']);
  assert.is(refused.code, 3);
});

test('starts that race in one home make one daemon', async ({ home }) => {
  const starts = await Promise.all([1, 2, 3].map(() => home.svc(['start', '--json'])));
  const outcomes = starts.map(({ code, stdout, stderr }) => {
    assert.is(code, 0, stderr);
    return JSON.parse(stdout);
  });
  assert.is(new Set(outcomes.map(({ pid }) => pid)).size, 1);
  assert.is(new Set(outcomes.map(({ addresses }) => addresses.http)).size, 1);
  assert.is(outcomes.filter(({ started }) => started).length, 1);
});

test('an address that was asked for stays an error', async ({ home }) => {
  const env = { SVC_HTTP: '127.0.0.1:4780' };
  const { code, stderr } = await home.svc(['run', 'hi'], { env });
  assert.is(code, 6);
  assert.match(stderr, /hint: .*svc config set http 127\.0\.0\.1:0, without the variable SVC_HTTP/);
});

test('doctor says before a start that it will take another address', async ({ home }) => {
  const { stdout } = await home.svc(['doctor', '--json']);
  const found = JSON.parse(stdout).checks.filter(
    ({ name }: { name: string }) => name === 'listeners',
  );
  assert.equal(
    found.map(({ status }: { status: string }) => status),
    ['warn', 'warn'],
  );
  assert.match(found[0].detail, 'a start takes another address');
});

test.run();
