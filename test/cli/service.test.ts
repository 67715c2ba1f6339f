import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { agentText } from '../../src/cli/upkeep/service/launch-agent.ts';
import type { Service } from '../../src/cli/upkeep/service/service.ts';
import { unitText } from '../../src/cli/upkeep/service/systemd.ts';
import { DAEMON_ALLOCATOR } from '../../src/home/allocator.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

const test = suite<{ home: Home }>('svc service');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

const SERVICE: Service = {
  command: ['/opt/no de/bin/node', '/opt/100%/$HOME/"svc"/main.js', 'serve'],
  env: { SVC_HOME: '/srv/a "b" 5%' },
  envFile: '/srv/svc/service.env',
  start_s: 70,
  stop_s: 60,
  stderr: '/srv/<logs>&/stderr.txt',
};
const has = (command: string) => spawnSync(command, ['--version']).status === 0;
const isLinux = process.platform === 'linux';
const skipped = (what: string) => console.log(`skipped: ${what}`);

const canVerify = has('systemd-analyze');
if (!canVerify) skipped('systemd checks the unit: there is no systemd-analyze here');
(canVerify ? test : test.skip)('systemd finds nothing wrong in the unit', ({ home }) => {
  const folder = join(home.folder, 'units');
  mkdirSync(folder);
  const file = join(folder, 'svc.service');
  const command = [process.execPath, join(home.folder, 'a b%c$d.js'), 'serve'];
  writeFileSync(file, unitText({ ...SERVICE, command }));
  const { status, stderr } = spawnSync('systemd-analyze', ['--user', 'verify', file], {
    encoding: 'utf8',
    env: { ...process.env, XDG_RUNTIME_DIR: home.folder, HOME: home.folder },
  });
  const ours = stderr.split('\n').filter((line) => line.includes('svc.service'));
  assert.equal(ours, []);
  assert.is(status, 0, stderr);
});

test('the unit escapes what systemd would read', () => {
  const text = unitText(SERVICE);
  assert.match(
    text,
    'ExecStart="/opt/no de/bin/node" "/opt/100%%/$$HOME/\\"svc\\"/main.js" "serve"',
  );
  assert.match(text, 'Environment="SVC_HOME=/srv/a \\"b\\" 5%%"');
  for (const line of ['Type=notify', 'WatchdogSec=30', 'RestartPreventExitStatus=2 6'])
    assert.match(text, `${line}\n`);
});

test('the launch agent escapes what XML would read', () => {
  const text = agentText(SERVICE);
  assert.match(text, '<string>/srv/&lt;logs&gt;&amp;/stderr.txt</string>');
  assert.match(text, '<key>SVC_HOME</key>');
});

/** A folder for the PATH with a command that records its arguments. */
function recorder(home: Home, name: string, script = ''): { PATH: string; calls: () => string[] } {
  const folder = join(home.folder, 'bin');
  const file = join(folder, `${name}.calls`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), `#!/bin/sh\necho "$@" >> '${file}'\n${script}\n`);
  chmodSync(join(folder, name), 0o755);
  return {
    PATH: `${folder}:${process.env.PATH}`,
    calls: () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []),
  };
}

(isLinux ? test : test.skip)('install, status and uninstall ask systemd', async ({ home }) => {
  const { PATH, calls } = recorder(home, 'systemctl', '[ "$2" = is-active ] && echo active; true');
  const env = { PATH };
  const life = await serve(home);
  const installed = await home.svc(['service', 'install', '--json'], { env });
  assert.is(installed.code, 0, installed.stderr);
  assert.is(JSON.parse(installed.stdout).stopped_pid, life.pid);
  assert.equal(await life.ended, { code: 0, signal: null });
  const file = join(home.folder, '.config', 'systemd', 'user', 'svc.service');
  const unit = readFileSync(file, 'utf8');
  for (const [name, value] of Object.entries(DAEMON_ALLOCATOR))
    assert.match(unit, `Environment="${name}=${value}"`);
  assert.match(unit, `Environment="SVC_HOME=${home.folder}"`);
  assert.match(unit, /main\.js" "serve"\n/);
  const status = await home.svc(['service', 'status'], { env });
  assert.is(status.code, 0, status.stderr);
  assert.match(status.stdout, 'active, a service of systemd');
  const removed = await home.svc(['service', 'uninstall'], { env });
  assert.is(removed.code, 0, removed.stderr);
  assert.not(existsSync(file));
  assert.is((await home.svc(['service', 'status'], { env })).code, 3);
  assert.equal(
    calls().filter((call) => !call.includes('is-active')),
    [
      '--user daemon-reload',
      '--user enable --now svc.service',
      '--user disable --now svc.service',
      '--user daemon-reload',
    ],
  );
});

/** A systemd that fails at one word, or from the start. */
const NO_BUS = 'echo "Failed to connect to bus: No medium found" >&2; exit 1';
const failsAt = (word: string) =>
  `case "$*" in *${word}*) echo "Job for svc.service failed" >&2; exit 1;; *is-active*) echo inactive; exit 3;; esac`;
const unitOf = (home: Home) => join(home.folder, '.config', 'systemd', 'user', 'svc.service');
const onLinux = isLinux ? test : test.skip;

onLinux('without a bus install stops no daemon and writes nothing', async ({ home }) => {
  const { PATH, calls } = recorder(home, 'systemctl', NO_BUS);
  const life = await serve(home);
  const { code, stderr } = await home.svc(['service', 'install'], { env: { PATH } });
  assert.is(code, 6);
  assert.match(stderr, 'Failed to connect to bus: No medium found');
  assert.match(stderr, /hint: .*(XDG_RUNTIME_DIR|enable-linger|Sign in again).*svc start/);
  assert.not(existsSync(unitOf(home)));
  assert.equal(calls(), ['--user is-active svc.service']);
  assert.is((await life.ask((client) => client.call('health'))).ready, true);
  await life.stop();
});

onLinux('an install that fails is undone, and the daemon runs again', async ({ home }) => {
  const { PATH, calls } = recorder(home, 'systemctl', failsAt('enable'));
  const life = await serve(home);
  const { code, stderr } = await home.svc(['service', 'install'], { env: { PATH } });
  assert.equal(await life.ended, { code: 0, signal: null });
  assert.is(code, 6);
  assert.match(stderr, 'Job for svc.service failed');
  const [, pid] =
    /hint: Nothing was installed\. The daemon runs again \(pid (\d+)\)/.exec(stderr) ?? [];
  const status = JSON.parse((await home.svc(['status', '--json'])).stdout);
  assert.equal([status.pid, status.state], [Number(pid), 'ready'], stderr);
  assert.not(existsSync(unitOf(home)));
  assert.equal(calls().slice(-2), ['--user disable --now svc.service', '--user daemon-reload']);
});

onLinux('a failed install keeps the definition of before', async ({ home }) => {
  const { PATH } = recorder(home, 'systemctl', failsAt('enable'));
  mkdirSync(dirname(unitOf(home)), { recursive: true });
  writeFileSync(unitOf(home), 'the unit of before');
  assert.is((await home.svc(['service', 'install'], { env: { PATH } })).code, 6);
  assert.is(readFileSync(unitOf(home), 'utf8'), 'the unit of before');
});

onLinux(
  'status says that systemd cannot be queried, and uninstall removes anyway',
  async ({ home }) => {
    const { PATH } = recorder(home, 'systemctl', NO_BUS);
    const env = { PATH };
    const wanted = join(dirname(unitOf(home)), 'default.target.wants', 'svc.service');
    mkdirSync(dirname(wanted), { recursive: true });
    writeFileSync(unitOf(home), '');
    symlinkSync(unitOf(home), wanted);
    const status = await home.svc(['service', 'status'], { env });
    assert.is(status.code, 0);
    assert.match(status.stdout, /^installed, state unknown, a service of systemd\n/);
    assert.match(status.stderr, 'systemd cannot be queried: ');
    const { state, problem } = JSON.parse(
      (await home.svc(['service', 'status', '--json'], { env })).stdout,
    );
    assert.is(state, 'unknown');
    assert.match(problem, 'No medium found');
    const removed = await home.svc(['service', 'uninstall'], { env });
    assert.is(removed.code, 0, removed.stderr);
    assert.match(removed.stderr, /No medium found\nA daemon .* may still run\. .* svc stop\n$/);
    assert.not(existsSync(unitOf(home)));
    assert.is(lstatSync(wanted, { throwIfNoEntry: false }), undefined);
    assert.is((await home.svc(['service', 'status'], { env })).code, 3);
  },
);

test('--print changes nothing', async ({ home }) => {
  const { code, stdout } = await home.svc(['service', 'install', '--print']);
  assert.is(code, 0);
  assert.match(stdout, 'serve');
  assert.not(existsSync(join(home.folder, '.config')));
});

(isLinux ? test : test.skip)(
  'the daemon reports ready, the watchdog and its stop to systemd',
  async ({ home }) => {
    const { PATH, calls } = recorder(home, 'systemd-notify');
    const life = await serve(home, {
      env: { PATH, NOTIFY_SOCKET: join(home.folder, 'notify'), WATCHDOG_USEC: '300000' },
    });
    await waitFor('the watchdog hears', () => calls().some((call) => call.includes('WATCHDOG=1')));
    assert.ok(calls().some((call) => call.includes('READY=1') && call.endsWith('STATUS=ready')));
    await life.stop();
    assert.ok(
      calls().some((call) => /STOPPING=1 .*STATUS=stop/.test(call)),
      calls().join('\n'),
    );
  },
);

const canReceive = has('python3') && has('systemd-notify');
if (!canReceive) skipped('a real notify socket: there is no python3 or no systemd-notify here');
(canReceive ? test : test.skip)('a real notify socket receives what is sent', async ({ home }) => {
  const path = join(home.folder, 'notify');
  const receiver = spawn('python3', ['-u', '-c', RECEIVER, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let received = '';
  receiver.stdout.setEncoding('utf8').on('data', (text: string) => {
    received += text;
  });
  try {
    await waitFor('it listens', () => received.includes('listens'));
    const life = await serve(home, { env: { NOTIFY_SOCKET: path } });
    await waitFor('READY=1 arrives', () => received.includes('READY=1'));
    await life.stop();
    await waitFor('STOPPING=1 arrives', () => received.includes('STOPPING=1'));
    assert.match(received, 'STATUS=ready');
  } finally {
    receiver.kill();
    await once(receiver, 'exit');
  }
});

/** Prints each datagram. It closes the descriptors that come with a barrier. */
const RECEIVER = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('listens')
while True:
    data, fds, flags, address = socket.recv_fds(s, 65536, 8)
    for fd in fds: os.close(fd)
    print(data.decode())
`;

test('uninstall stops the daemon, lists what stays and deletes nothing', async ({ home }) => {
  const { PATH } = recorder(home, 'systemctl');
  const life = await serve(home);
  const { code, stdout } = await home.svc(['uninstall', '--json'], { env: { PATH } });
  assert.is(code, 0);
  const { stopped_pid, left } = JSON.parse(stdout);
  assert.is(stopped_pid, life.pid);
  assert.ok(
    left.some(({ path, size }: { path: string; size: number }) => path === home.folder && size > 0),
  );
  assert.ok(existsSync(home.paths.database));
  await life.ended;
});

test('upgrade says how, and changes nothing', async ({ home }) => {
  const { code, stdout } = await home.svc(['upgrade']);
  assert.is(code, 0);
  assert.match(stdout, 'Upgrade it with: git pull');
});

test.run();
