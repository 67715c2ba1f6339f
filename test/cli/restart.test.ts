import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { startFakeDaemon } from './fake-daemon.ts';

const test = suite<{ home: Home }>('svc restart');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

test('a mistake in the configuration is reported with a hint while the daemon still runs', async ({
  home,
}) => {
  const daemon = await startFakeDaemon(home);
  for (const [text, env] of [
    ['{ "htpp": "127.0.0.1:0" }', {}],
    ['{}', { SVC_LIMIT_QUEUE_RUNS: 'many' }],
  ] as const) {
    writeFileSync(home.paths.config, text);
    const { code, stdout, stderr } = await home.svc(['restart', '--json'], { env });
    assert.equal([code, stdout], [6, '']);
    const { error } = JSON.parse(stderr);
    assert.is(error.code, 'config_invalid');
    // That command reads the same configuration, and would fail the same way.
    assert.not.match(error.hint, 'svc config show');
    assert.equal(daemon.asked, []);
  }
  await daemon.close();
});

test('an address that the new daemon would refuse is reported while the old one still runs', async ({
  home,
}) => {
  const daemon = await startFakeDaemon(home);
  for (const [words, param, why, auth] of [
    [['--grpc', '0.0.0.0:0'], 'grpc', /gRPC has no TLS/, true],
    [['--grpc', '0.0.0.0:0'], 'grpc', /authentication is off/, false],
    [['--http', '0.0.0.0:0'], 'http', /authentication is off/, false],
  ] as const) {
    writeFileSync(home.paths.config, JSON.stringify({ auth }));
    const { code, stderr } = await home.svc(['restart', '--json', ...words]);
    const { error } = JSON.parse(stderr);
    assert.equal([code, error.code, error.param], [6, 'address_refused', param]);
    assert.match(error.message, why);
    assert.equal(daemon.asked, []);
  }
  await daemon.close();
});

test('the doctor reports it too', async ({ home }) => {
  writeFileSync(home.paths.config, '{ "auth": false }');
  const { stdout } = await home.svc(['doctor', '--json'], { env: { SVC_HTTP: '0.0.0.0:0' } });
  const { checks } = JSON.parse(stdout) as {
    checks: { name: string; status: string; detail: string }[];
  };
  const found = checks.find(({ name }) => name === 'configuration');
  assert.is(found?.status, 'fail');
  assert.match(found?.detail ?? '', 'authentication is off');
});

test.run();
