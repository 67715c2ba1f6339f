import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Check, DoctorContext } from '../../src/cli/upkeep/doctor/check.ts';
import { checkFolders, checkToken, checkTokens } from '../../src/cli/upkeep/doctor/home-check.ts';
import { checkPlaces } from '../../src/cli/upkeep/doctor/place-check.ts';
import { checkExposure, checkPorts } from '../../src/cli/upkeep/doctor/port-check.ts';
import { checkDefaults } from '../../src/cli/upkeep/doctor/provider-check.ts';
import { checkStore } from '../../src/cli/upkeep/doctor/store-check.ts';
import { loadConfig } from '../../src/config/config.ts';
import { buildsFolder } from '../../src/home/engine-builds.ts';
import { findPaths } from '../../src/home/paths.ts';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('svc doctor on a home that is not as it should be');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

/** The whole doctor: each run loads the engine too. */
async function examine(
  home: Home,
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: number | null; checks: Check[] }> {
  const { code, stdout } = await home.svc(['doctor', '--json'], { env });
  return { code, checks: (JSON.parse(stdout) as { checks: Check[] }).checks };
}

/** What some checks find without a daemon. */
async function findings(
  { env: own }: Home,
  checks: readonly ((context: DoctorContext) => Check[] | Promise<Check[]>)[],
  env: NodeJS.ProcessEnv = {},
): Promise<Check[]> {
  const all = { ...own, ...env };
  const paths = findPaths(all);
  const config = loadConfig(paths.config, { env: all });
  const runtime = readRuntimeFile(paths.runtime);
  const context = { paths, config, inForce: config, running: null, runtime };
  return (await Promise.all(checks.map((check) => check(context)))).flat();
}

const statuses = (checks: readonly Check[]) => checks.map(({ status }) => status);

test('what a start refuses is a failure, and what it does without is a warning', async ({
  home,
}) => {
  const { runtime, signIn, data } = home.paths;
  mkdirSync(runtime);
  mkdirSync(data, { mode: 0o700 });
  writeFileSync(signIn, '');
  const { code, checks } = await examine(home);
  assert.is(code, 1);
  const hint = 'Move it away; svc makes a new one when it starts.';
  assert.equal(
    checks.filter((check) => check.hint === hint).map(({ status, detail }) => [status, detail]),
    [
      ['fail', `${runtime} is a folder; svc needs a file there.`],
      ['warn', `${signIn} is not a folder; svc needs a folder there.`],
    ],
  );
});

test('an address that other machines reach is a warning, and gRPC there is refused', async ({
  home,
}) => {
  assert.equal(await findings(home, [checkExposure], { SVC_HTTP: '127.0.0.1:0' }), []);
  const [found] = await findings(home, [checkExposure], { SVC_HTTP: '0.0.0.0:0' });
  assert.equal([found?.name, found?.status], ['listeners', 'warn']);
  assert.match(found?.detail ?? '', /^Other machines can reach 0\.0\.0\.0:0.*no TLS/);
  const { checks } = await examine(home, { SVC_GRPC: '0.0.0.0:0' });
  const refused = checks.find(({ detail }) => /other machines/i.test(detail));
  assert.equal(refused?.status, 'fail');
  assert.match(refused?.detail ?? '', /gRPC has no TLS/);
});

test('what others can read, and a removed high-water mark, are found with a daemon and without', async ({
  home,
}) => {
  const { highWater, token, tokens } = home.paths;
  const places = async () => statuses(await findings(home, [checkFolders, checkPlaces]));
  const lost = async () => {
    const { checks } = await examine(home);
    return checks
      .filter(({ name, status }) => name === 'event log' && status !== 'ok')
      .map(({ status, detail, hint }) => [status, `${detail} ${hint}`] as const);
  };
  assert.equal(await places(), ['ok'], 'a home that was never used');
  assert.is((await home.svc(['start'])).code, 0);
  assert.equal(await places(), ['ok']);

  assert.is((await home.svc(['token', 'create', '--name', 'a'])).code, 0);
  assert.equal(await findings(home, [checkTokens]), []);
  chmodSync(tokens, 0o644);
  const [list] = await findings(home, [checkTokens]);
  assert.equal([list?.status, list?.hint], ['warn', `Run: chmod 600 ${tokens}`]);
  assert.match(list?.detail ?? '', 'list of tokens');

  assert.equal(statuses(await findings(home, [checkToken])), ['ok']);
  chmodSync(token, 0o644);
  const [open] = await findings(home, [checkToken]);
  assert.is(open?.status, 'fail');
  assert.match(open?.detail ?? '', `${token} (mode 0644)`);
  assert.match(open?.hint ?? '', `chmod 600 ${token}`);

  rmSync(highWater);
  const [running] = await lost();
  assert.is(running?.[0], 'warn');
  assert.match(running?.[1] ?? '', /was removed.*svc restart/);
  assert.is((await home.svc(['restart'])).code, 0, 'the daemon wrote it again when it stopped');
  assert.equal(await lost(), []);
  assert.equal(statuses(await findings(home, [checkToken])), ['ok'], 'the start closed it');
  assert.is((await home.svc(['stop'])).code, 0);
  assert.equal(await places(), ['ok'], 'a home that was used');

  rmSync(highWater);
  const [stopped] = await lost();
  assert.is(stopped?.[0], 'fail');
  assert.match(stopped?.[1] ?? '', /is gone.*Its \d+ events are intact\..*echo accept > /);
  assert.is((await home.svc(['start'])).code, 1, 'the doctor and the start agree');
  writeFileSync(highWater, 'accept\n');
  assert.is((await home.svc(['start'])).code, 0);
  assert.is((await home.svc(['stop'])).code, 0);
  assert.equal([...new Set(statuses(await findings(home, [checkStore])))], ['ok']);
});

test('a default provider that is not there is a failure, before a run fails', async ({ home }) => {
  const settings = { default_provider: 'nowhere', default_cloud_provider: 'near' };
  const providers = { near: { base_url: 'http://127.0.0.1:9/v1' } };
  writeFileSync(home.paths.config, JSON.stringify({ ...settings, providers }));
  assert.equal(
    (await findings(home, [checkDefaults])).map(({ status, detail }) => [status, detail]),
    [
      ['fail', 'The setting default_provider names "nowhere", and there is no such provider.'],
      [
        'fail',
        'The setting default_cloud_provider names "near", and there is no such cloud provider.',
      ],
    ],
  );
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'near', providers }));
  assert.equal(await findings(home, [checkDefaults]), []);
});

test('a home that cannot be made is a failure', async ({ home }) => {
  const [found] = await findings(home, [checkFolders], { SVC_HOME: '/proc/nope' });
  assert.is(found?.name, 'home');
  assert.is(found?.status, 'fail');
  assert.match(found?.detail ?? '', /^The folder \/proc\/nope\/data cannot be made in \/proc/);
});

test('a file in the place of the home fails no check for another reason', async ({ home }) => {
  const file = join(home.folder, 'file');
  writeFileSync(file, '');
  const { checks } = await examine(home, { SVC_HOME: file });
  assert.equal(
    checks.filter(({ detail }) => detail.startsWith('An unexpected error')),
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
    const http = `127.0.0.1:${String(port).trim()}`;
    const [{ detail = '' } = {}] = await findings(home, [checkPorts], { SVC_HTTP: http });
    if (process.platform === 'linux')
      assert.match(detail, `is used by node my-server.mjs (pid ${other.pid}).`);
  } finally {
    other.kill();
  }
});

test('builds of another version can be removed, and a model in memory keeps them', async ({
  home,
}) => {
  mkdirSync(buildsFolder(home.paths, '1.0.0'), { recursive: true });
  const { code, stdout, stderr } = await home.svc(['engine', 'remove', '1.0.0']);
  assert.equal([code, stdout], [0, 'Removed 1.0.0.\n']);
  assert.match(stderr, 'A model that is in memory keeps it until it is unloaded.');
});

test.run();
