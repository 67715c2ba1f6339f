import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, isAbsolute } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { tryLock } from '../../src/home/file-lock.ts';
import { findPaths } from '../../src/home/paths.ts';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { health, run, runtimeFile, startFakeDaemon, status } from './fake-daemon.ts';
import { startSleeper } from './sleeper.ts';

const test = suite<{ home: Home }>('svc start');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

const starting = { ...status, state: 'starting', state_path: 'starting.probing' };

test('a running daemon is reported, exit 0', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  const plain = await home.svc(['start']);
  assert.equal([plain.code, plain.stderr], [0, '']);
  assert.match(plain.stdout, /^svc is running already \(pid \d+\)\.\n/);
  assert.equal(JSON.parse((await home.svc(['start', '--json'])).stdout), {
    ...status,
    started: false,
  });
  await daemon.close();
});

test('an address that other machines reach is said at the start', async ({ home }) => {
  const open = await home.svc(['start', '--http', '0.0.0.0:0']);
  assert.is(open.code, 0, open.stderr);
  assert.match(open.stderr, /^Other machines can reach this address, and tokens and prompts/);
  await home.svc(['stop']);
  assert.is((await home.svc(['start'])).stderr, '');
});

test('a daemon that run or chat cannot start says why, without lines of its log', async ({
  home,
}) => {
  mkdirSync(dirname(home.paths.database), { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.database, 'This is no database. '.repeat(400));
  // This address is worth a warning in the log.
  const env = { SVC_HTTP: '0.0.0.0:0' };
  const started = await home.svc(['start'], { env });
  assert.match(started.stderr, 'WARN');
  for (const [args, stdin] of [
    [['run', 'hi'], ''],
    [['chat'], 'hi\n'],
  ] as const) {
    const { stderr } = await home.svc(args, { env, stdin });
    assert.match(stderr, /error: .*\n.*hint: /);
    assert.not.match(stderr, 'WARN');
  }
});

test('Ctrl-C while run starts the daemon: cancelled, and nothing was sent', async ({ home }) => {
  const { child, ended, stderr } = home.spawn(['run', 'hi']);
  await waitFor('the start is said', () => stderr().includes('Starting the daemon'));
  child.kill('SIGINT');
  const { code, stdout } = await ended;
  assert.equal([code, stdout], [130, ''], stderr());
  assert.match(stderr(), 'Cancelled. Nothing was sent.');
  assert.equal(JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout).runs, []);
});

test('flags that do not apply to a running daemon are reported', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  const { code, stderr } = await home.svc([
    'start',
    '--grpc',
    '127.0.0.1:0',
    '--log-level',
    'DEBUG',
  ]);
  assert.equal(
    [code, stderr],
    [
      0,
      'Not applied, because svc is running already: --grpc 127.0.0.1:0 --log-level debug. To apply: svc restart --grpc 127.0.0.1:0 --log-level debug\n',
    ],
  );
  await daemon.close();
});

test('a failure that the daemon logged is printed once', async ({ home }) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo;
  const { code, stderr } = await home.svc(['start', '--http', `127.0.0.1:${port}`]);
  assert.is(code, 6);
  assert.match(stderr, /^error: Another program listens on [^\n]*\nhint: [^\n]*\n$/);
  await new Promise((resolve) => taken.close(resolve));
});

test('start and run report a daemon without its socket, and start no second one', async ({
  home,
}) => {
  const { pid, process_start, end } = await startSleeper();
  const addresses = { http: null, grpc: null, socket: home.paths.socket };
  await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, pid, process_start, addresses });
  for (const args of [['start'], ['run', 'p']]) {
    const { code, stdout, stderr } = await home.svc(args);
    assert.equal([code, stdout], [124, '']);
    assert.match(stderr, `(pid ${pid}) and does not answer on its socket`);
    assert.match(stderr, 'svc restart');
    assert.not.match(stderr, 'Starting');
  }
  const status = await home.svc(['status']);
  assert.is(status.code, 4);
  assert.match(status.stdout, 'unresponsive');
  assert.match(status.stderr, /socket was deleted.*svc restart/);
  await end();
});

test('a start that waits for the home is ended by svc stop, and says so', async ({ home }) => {
  mkdirSync(dirname(home.paths.lock), { recursive: true, mode: 0o700 });
  const release = await tryLock(home.paths.lock);
  const start = home.spawn(['start']);
  await waitFor(
    'it waits',
    () => readdirSync(home.folder).some((name) => /^starting-\d+\.json$/.test(name)),
    { within_ms: 60_000 },
  );
  const stop = await home.svc(['stop']);
  assert.equal([stop.code, stop.stderr], [0, '']);
  assert.match(stop.stdout, /^svc has stopped \(pid \d+\)\.\n$/);
  const { code, stderr } = await start.ended;
  assert.equal(
    [code, stderr],
    [
      4,
      'error: The start was ended: svc stop, or a signal, came before the daemon was ready.\n' +
        'hint: Start it again with: svc start\n',
    ],
  );
  release?.();
  assert.is((await home.svc(['status'])).code, 3);
});

test('an empty HOME is not the working folder', () => {
  for (const env of [{ HOME: '' }, { HOME: 'here' }, { HOME: '', XDG_STATE_HOME: 'state' }]) {
    for (const path of Object.values(findPaths(env))) assert.ok(isAbsolute(path), path);
  }
});

test('start and run wait for a starting daemon', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  let ready = () => {};
  daemon.on('status', ({ result }) => result(starting));
  daemon.on('health', ({ result }) => result({ ...health, ready: false }));
  daemon.on('health.watch', ({ event }) => {
    event({ ...health, ready: false });
    ready = () => {
      daemon.on('status', ({ result }) => result(status));
      daemon.on('run.start', ({ event, result }) => {
        event({ run });
        result({ ...run, state: 'completed', output: 'ok' });
      });
      event(health);
    };
  });
  const refusal = { code: 'not_ready', message: 'The daemon is starting.' };
  for (const [args, stdout] of [
    [['start'], /already/],
    [['run', 'p'], /^ok\n$/],
  ] as const) {
    daemon.asked.length = 0;
    daemon.on('status', ({ result }) => result(starting));
    daemon.on('run.start', ({ error }) => error(refusal));
    const outcome = home.spawn(args);
    await waitFor('it watches', () => daemon.asked.some(({ method }) => method === 'health.watch'));
    ready();
    const { code, stdout: printed, stderr } = await outcome.ended;
    assert.equal([code, stderr], [0, '']);
    assert.match(printed, stdout);
  }
  await daemon.close();
});

test('--wait bounds the waiting: exit 4', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  daemon.on('status', ({ result }) => result(starting));
  daemon.on('health.watch', ({ event }) => event({ ...health, ready: false }));
  const { code, stderr } = await home.svc(['start', '--wait', '0.2', '--json']);
  assert.is(code, 4);
  assert.is(JSON.parse(stderr).error.code, 'start_timed_out');
  await daemon.close();
});

test('a daemon that does not answer is not started twice', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  daemon.on('status', () => {});
  const { code, stderr } = await home.svc(['start', '--json']);
  assert.is(code, 124);
  assert.match(JSON.parse(stderr).error.hint, 'svc stop --force');
  await daemon.close();
});

for (const code of ['connection_lost', 'daemon_not_running'])
  test(`a daemon that dies during the request is started again: ${code}`, async ({ home }) => {
    const dying = await startFakeDaemon(home);
    dying.on('status', ({ error }) => {
      error({ code, message: 'It was killed.' });
      void dying.close();
    });
    const { code: exit, stdout, stderr } = await home.svc(['start', '--json']);
    assert.is(exit, 0, stderr);
    assert.is(JSON.parse(stdout).started, true);
    assert.is((await home.svc(['stop'])).code, 0);
  });

test('start and run print the error of the daemon with its exit code', async ({ home }) => {
  mkdirSync(home.folder, { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.config, '{ "http": 5 }');
  for (const args of [
    ['start', '--json'],
    ['run', 'p', '--json'],
  ]) {
    const { code, stdout, stderr } = await home.svc(args);
    assert.equal([code, stdout], [6, '']);
    assert.is(JSON.parse(stderr).error.code, 'config_invalid');
  }
});

test('a home that cannot be written is exit 6, also where mkdir never ends', async () => {
  for (const SVC_HOME of [
    '/dev/null',
    '/dev/null/x',
    ...(process.platform === 'linux' ? ['/proc/none/x'] : []),
  ]) {
    const home = makeHome({ SVC_HOME });
    const { code, stderr } = await home.svc(['start', '--json']);
    assert.is(code, 6);
    assert.is(JSON.parse(stderr).error.code, 'home_unusable');
    await home.close();
  }
});

test('the stderr of the daemon goes to one file, which is emptied above its bound', async ({
  home,
}) => {
  writeFileSync(home.paths.config, '{ "http": 5 }');
  mkdirSync(home.paths.logs, { recursive: true });
  writeFileSync(home.paths.stderr, 'kept\n');
  await home.svc(['start']);
  assert.match(readFileSync(home.paths.stderr, 'utf8'), /^kept\n/);
  writeFileSync(home.paths.stderr, Buffer.alloc(1024 * 1024 + 1));
  chmodSync(home.paths.stderr, 0o600);
  await home.svc(['start']);
  assert.ok(statSync(home.paths.stderr).size < 1024 * 1024);
});

test.run();
