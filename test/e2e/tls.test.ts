import { chmodSync, existsSync } from 'node:fs';
import { Agent, fetch } from 'undici';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type MadePair, makePair, writePair } from '../helpers/certificate.ts';
import { healthOf, runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

/** The built daemon with a certificate. */
interface Context {
  home: Home;
  pair: MadePair;
  env: NodeJS.ProcessEnv;
}

const test = suite<Context>('TLS of the daemon');

test.before.each((context) => {
  context.home = makeHome({ SVC_LIMIT_CERTIFICATE_LOOK_MS: '100' });
  context.pair = makePair();
  const { tls_cert, tls_key } = writePair(context.home.folder, context.pair);
  context.env = { SVC_TLS_CERT: tls_cert, SVC_TLS_KEY: tls_key };
});
test.after.each(({ home }) => home.close());

interface Check {
  name: string;
  status: string;
  detail: string;
}

async function doctor(home: Home, env: NodeJS.ProcessEnv): Promise<Check[]> {
  const { stdout } = await home.svc(['doctor', '--json'], { env });
  return (JSON.parse(stdout) as { checks: Check[] }).checks;
}

async function ready(url: string, ca: string): Promise<number> {
  const dispatcher = new Agent({ connect: { ca } });
  try {
    return (await fetch(`${url}/readyz`, { dispatcher })).status;
  } finally {
    await dispatcher.close();
  }
}

test('both listeners have TLS, on every address, the commands find them, and a renewed pair is served by the same process', async ({
  home,
  pair,
  env,
}) => {
  const open = { ...env, SVC_HTTP: '0.0.0.0:0', SVC_GRPC: '0.0.0.0:0' };
  const started = await home.svc(['start'], { env: open });
  assert.is(started.code, 0, started.stderr);
  assert.match(started.stdout, /http {2}https:\/\/0\.0\.0\.0:\d+/);
  const { addresses } = await runtimeOf(home);
  assert.match(String(addresses.http), /^https:/);
  const url = String(addresses.http).replace('0.0.0.0', '127.0.0.1');
  assert.is(await ready(url, pair.cert), 200);
  for (const source of ['http', 'grpc', 'socket'] as const) {
    const { code, stdout, stderr } = await healthOf(home, source);
    assert.equal([code, stderr], [0, ''], stdout);
  }
  const console = await home.svc(['console', '--no-open']);
  assert.match(console.stdout, /https:\/\/127\.0\.0\.1:\d+\/#ticket=/);
  const checks = await doctor(home, open);
  assert.is(checks.find(({ name }) => name === 'certificate')?.status, 'ok');
  assert.not(checks.some(({ detail }) => detail.includes('no TLS')));

  // A restart that cannot serve its pair leaves the daemon running, which serves a renewed pair.
  const { pid } = await runtimeOf(home);
  const outcome = await home.svc(['restart'], { env: { ...open, SVC_TLS_KEY: '/nonexistent' } });
  assert.is(outcome.code, 6);
  const renewed = makePair();
  writePair(home.folder, renewed);
  await waitFor('the new certificate', () =>
    ready(url, renewed.cert).then(
      (code) => code === 200,
      () => false,
    ),
  );
  assert.is((await runtimeOf(home)).pid, pid);
});

test('a pair that cannot be served ends the start before anything is bound', async ({
  home,
  env,
}) => {
  const { SVC_TLS_KEY, ...half } = env;
  assert.ok(SVC_TLS_KEY);
  const other = makeHome();
  const foreign = writePair(other.folder, makePair()).tls_key;
  for (const [given, code, commands] of [
    [half, 'config_invalid', ['start']],
    [{ ...env, SVC_TLS_KEY: foreign }, 'certificate_invalid', ['start', 'serve', 'restart']],
    [{ ...env, SVC_TLS_CERT: '/nonexistent.pem' }, 'certificate_invalid', ['start']],
  ] as const)
    for (const command of commands) {
      const outcome = await home.svc([command, '--json'], { env: given });
      assert.is(outcome.code, 6, command);
      assert.is(JSON.parse(outcome.stderr || outcome.stdout).error.code, code, command);
      assert.not(existsSync(home.paths.runtime), command);
    }
  const [check] = (await doctor(home, half)).filter(({ name }) => name === 'certificate');
  assert.is(check?.status, 'fail');
  await other.close();
});

test('the doctor warns before a certificate ends, and of a key that others can read', async ({
  home,
  env,
}) => {
  const soon = makePair({ to: new Date(Date.now() + 5 * 86_400_000) });
  writePair(home.folder, soon);
  chmodSync(String(env.SVC_TLS_KEY), 0o644);
  const found = (await doctor(home, env)).filter(({ name }) => name === 'certificate');
  assert.equal(
    found.map(({ status }) => status),
    ['warn', 'fail'],
  );
  assert.match(found[0]?.detail ?? '', /DNS:localhost.*\(4 days left\)/);
  assert.match(found[1]?.detail ?? '', /private key .*tls\.key \(mode 0644\)/);
});

test.run();
