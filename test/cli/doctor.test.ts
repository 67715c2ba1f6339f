import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { reserveFile } from '../../src/store/files/reserve.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('svc doctor on a home that is not as it should be');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

interface Check {
  name: string;
  status: string;
  detail: string;
  hint: string | null;
}

async function homeChecks(home: Home): Promise<{ code: number | null; checks: Check[] }> {
  const { code, stdout } = await home.svc(['doctor', '--json']);
  return {
    code,
    checks: (JSON.parse(stdout) as { checks: Check[] }).checks.filter(
      ({ name }) => name === 'home',
    ),
  };
}

test('a file of the wrong kind and a broken link are failures that name the path', async ({
  home,
}) => {
  const {
    database,
    highWater,
    token,
    secret,
    sessions,
    runtime,
    stderr,
    models,
    cache,
    signIn,
    socket,
  } = home.paths;
  const files = [
    database,
    highWater,
    reserveFile(database),
    token,
    secret,
    sessions,
    runtime,
    stderr,
  ];
  for (const folder of [dirname(database), dirname(stderr)])
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  const put = {
    folder: (path: string) => mkdirSync(path),
    file: (path: string) => writeFileSync(path, ''),
    link: (path: string) => symlinkSync('nowhere', path),
  };
  const all = [
    ...files.map((path) => [path, 'folder'] as const),
    [socket, 'folder'] as const,
    ...[models, cache, signIn].map((path) => [path, 'file'] as const),
  ];
  for (const [path, kind] of all) {
    rmSync(path, { recursive: true, force: true });
    put[kind](path);
  }
  const { code, checks } = await homeChecks(home);
  assert.is(code, 1);
  for (const [path, kind] of all) {
    const check = checks.find(({ detail }) => detail.startsWith(`${path} is `));
    assert.equal(
      [check?.status, check?.hint],
      ['fail', 'Move it away; svc creates a new one when it starts.'],
      path,
    );
    assert.match(check?.detail ?? '', kind === 'folder' ? 'is a folder' : 'is not a folder');
  }
  for (const [path] of all) rmSync(path, { recursive: true });
  put.link(token);
  assert.match(
    (await homeChecks(home)).checks.map(({ detail }) => detail).join('\n'),
    `${token} is a broken link.`,
  );
});

test('a home that was never used, and one that was, have no such failure', async ({ home }) => {
  const clean = async () => (await homeChecks(home)).checks.map(({ status }) => status);
  assert.equal(await clean(), ['ok']);
  assert.is((await home.svc(['start'])).code, 0);
  assert.equal(await clean(), ['ok']);
  assert.is((await home.svc(['stop'])).code, 0);
  assert.equal(await clean(), ['ok']);
});

test('an address that other machines reach is a warning, and gRPC there is refused', async ({
  home,
}) => {
  const exposed = async (env: NodeJS.ProcessEnv) => {
    const { stdout } = await home.svc(['doctor', '--json'], { env });
    return (JSON.parse(stdout) as { checks: Check[] }).checks.filter(({ detail }) =>
      /other machines/i.test(detail),
    );
  };
  assert.equal(await exposed({ SVC_HTTP: '127.0.0.1:0' }), []);
  const [found] = await exposed({ SVC_HTTP: '0.0.0.0:0' });
  assert.equal([found?.name, found?.status], ['listeners', 'warn']);
  assert.match(found?.detail ?? '', /^Other machines can reach 0\.0\.0\.0:0.*no TLS/);
  const [refused] = await exposed({ SVC_GRPC: '0.0.0.0:0' });
  assert.equal(refused?.status, 'fail');
  assert.match(refused?.detail ?? '', /gRPC has no TLS/);
});

test('a list of tokens that others can read is a warning', async ({ home }) => {
  assert.is((await home.svc(['start'])).code, 0);
  assert.is((await home.svc(['token', 'create', '--name', 'a'])).code, 0);
  const warnings = async () => {
    const { stdout } = await home.svc(['doctor', '--json']);
    return (JSON.parse(stdout) as { checks: Check[] }).checks.filter(({ detail }) =>
      detail.includes('list of tokens'),
    );
  };
  assert.equal(await warnings(), []);
  chmodSync(home.paths.tokens, 0o644);
  assert.equal(
    (await warnings()).map(({ status, hint }) => [status, hint]),
    [['warn', `Run: chmod 600 ${home.paths.tokens}`]],
  );
});

test('a token that others can read is a failure until the next start', async ({ home }) => {
  assert.is((await home.svc(['start'])).code, 0);
  const token = async () => (await checksOf(home)).filter(({ name }) => name === 'token');
  assert.equal(
    (await token()).map(({ status }) => status),
    ['ok'],
  );
  chmodSync(home.paths.token, 0o644);
  const [found] = await token();
  assert.is(found?.status, 'fail');
  assert.match(found?.detail ?? '', `${home.paths.token} (mode 0644)`);
  assert.match(found?.hint ?? '', `chmod 600 ${home.paths.token}`);
  assert.is((await home.svc(['restart'])).code, 0);
  assert.equal(
    (await token()).map(({ status }) => status),
    ['ok'],
  );
});

test('a removed high-water mark is found, with what to do, with a daemon and without', async ({
  home,
}) => {
  const { highWater } = home.paths;
  const found = async () =>
    (await checksOf(home))
      .filter(({ name, status }) => name === 'event log' && status !== 'ok')
      .map(({ status, detail, hint }) => [status, `${detail} ${hint}`] as const);
  assert.is((await home.svc(['start'])).code, 0);
  assert.equal(await found(), []);
  rmSync(highWater);
  const [running] = await found();
  assert.is(running?.[0], 'warn');
  assert.match(running?.[1] ?? '', /was removed.*svc restart/);
  assert.is((await home.svc(['restart'])).code, 0, 'the daemon wrote it again when it stopped');
  assert.equal(await found(), []);
  assert.is((await home.svc(['stop'])).code, 0);

  rmSync(highWater);
  const [stopped] = await found();
  assert.is(stopped?.[0], 'fail');
  assert.match(stopped?.[1] ?? '', /is gone.*Its \d+ events are intact\..*echo accept > /);
  assert.is((await home.svc(['start'])).code, 1, 'the doctor and the start agree');
  writeFileSync(highWater, 'accept\n');
  assert.is((await home.svc(['start'])).code, 0);
  assert.equal(await found(), []);
});

async function checksOf(home: Home, env: NodeJS.ProcessEnv = {}): Promise<Check[]> {
  const { stdout } = await home.svc(['doctor', '--json'], { env });
  return (JSON.parse(stdout) as { checks: Check[] }).checks;
}

test('a default provider that is not there is a failure, before a run fails', async ({ home }) => {
  const settings = { default_provider: 'nowhere', default_cloud_provider: 'near' };
  const providers = { near: { base_url: 'http://127.0.0.1:9/v1' } };
  writeFileSync(home.paths.config, JSON.stringify({ ...settings, providers }));
  const found = (await checksOf(home)).filter(({ name }) => name === 'defaults');
  assert.equal(
    found.map(({ status, detail }) => [status, detail]),
    [
      ['fail', 'The setting default_provider names "nowhere", and there is no such provider.'],
      [
        'fail',
        'The setting default_cloud_provider names "near", and there is no such cloud provider.',
      ],
    ],
  );
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'near', providers }));
  assert.equal(
    (await checksOf(home)).filter(({ name }) => name === 'defaults'),
    [],
  );
});

test('a home that cannot be made is a failure', async ({ home }) => {
  const checks = await checksOf(home, { SVC_HOME: '/proc/nope' });
  const found = checks.find(({ name }) => name === 'home');
  assert.is(found?.status, 'fail');
  assert.match(found?.detail ?? '', /^The folder \/proc\/nope\/data cannot be made in \/proc/);
});

test('a file in the place of the home fails no check for another reason', async ({ home }) => {
  const file = join(home.folder, 'file');
  writeFileSync(file, '');
  const checks = await checksOf(home, { SVC_HOME: file });
  assert.equal(
    checks.filter(({ detail }) => detail === 'This check failed to run.'),
    [],
  );
  assert.equal(
    checks.filter(({ hint }) => hint?.includes('svc doctor')),
    [],
    'the hint of a finding is not this command',
  );
});

test('a program on the port of the daemon is named by its program and script', async ({ home }) => {
  const script = join(home.folder, 'my-server.mjs');
  writeFileSync(
    script,
    `import { createServer } from 'node:net';
     const server = createServer().listen(0, '127.0.0.1', () => console.log(server.address().port));`,
  );
  const other = spawn(process.execPath, [script, '--key', 'secret']);
  try {
    const [port] = await once(other.stdout, 'data');
    const checks = await checksOf(home, { SVC_HTTP: `127.0.0.1:${String(port).trim()}` });
    const { detail = '' } = checks.find(({ name }) => name === 'listeners') ?? {};
    if (process.platform === 'linux')
      assert.match(detail, `is used by node my-server.mjs (pid ${other.pid}).`);
  } finally {
    other.kill();
  }
});

test.run();
