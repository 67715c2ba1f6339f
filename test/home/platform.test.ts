import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openEditor } from '../../src/cli/upkeep/config/editor.ts';
import { stopDaemon } from '../../src/cli/upkeep/daemon/stop-daemon.ts';
import { serviceManager } from '../../src/cli/upkeep/service/managers.ts';
import type { Service } from '../../src/cli/upkeep/service/service.ts';
import { taskText } from '../../src/cli/upkeep/service/task.ts';
import { readKeyFile } from '../../src/config/keys/key-file.ts';
import { readPasswordFile } from '../../src/config/store/password.ts';
import type { SvcError } from '../../src/errors.ts';
import { renameOver } from '../../src/home/atomic-write.ts';
import { prepareHome } from '../../src/home/home.ts';
import { findPaths } from '../../src/home/paths.ts';
import { platform, platformOf, type System } from '../../src/home/platform.ts';
import { toCmdCall } from '../../src/home/program-words.ts';
import { asGroupLeader, signalGroup } from '../../src/home/restrained.ts';
import { ownerOf, writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { launchOf } from '../../src/tools/launch.ts';
import { runtimeFile } from '../cli/fake-daemon.ts';
import { asSystem, withCommands } from '../helpers/system.ts';

const SYSTEMS: readonly System[] = ['linux', 'darwin', 'win32'];
const folder = mkdtempSync(join(tmpdir(), 'svc-platform-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

const refusal = (call: Promise<unknown>) =>
  call.then(
    () => null,
    (error: SvcError) => error,
  );

test('each system has its column, and an unknown one that of Linux', () => {
  for (const system of SYSTEMS)
    assert.equal(Object.keys(platformOf(system)), Object.keys(platform), system);
  assert.equal(platformOf('freebsd'), platformOf('linux'));
});

test('each system has its folders', async () => {
  const unix = { HOME: '/home/me', XDG_DATA_HOME: '/big', XDG_CACHE_HOME: 'relative' };
  const linux = await asSystem('linux', () => findPaths(unix));
  assert.equal(
    [linux.config, linux.database, linux.socket, linux.cache],
    [
      '/home/me/.config/svc/config.json',
      '/big/svc/events.db',
      '/home/me/.local/state/svc/svc.sock',
      '/home/me/.cache/svc',
    ],
  );
  const mac = await asSystem('darwin', () => findPaths(unix));
  const library = '/home/me/Library/Application Support/svc';
  assert.equal(
    [mac.config, mac.database, mac.socket, mac.cache],
    ['config.json', 'events.db', 'svc.sock', 'cache'].map((name) => `${library}/${name}`),
  );
  const local = { LOCALAPPDATA: 'D:\\Data', USERPROFILE: 'C:\\Users\\me', HOME: '/c/Users/me' };
  const windows = await asSystem('win32', () => findPaths(local));
  assert.equal(
    [windows.config, windows.database, windows.cache],
    ['config.json', 'events.db', 'cache'].map((name) => `D:\\Data\\svc\\${name}`),
  );
  const bare = await asSystem('win32', () => findPaths({ ...local, LOCALAPPDATA: '' }));
  assert.is(bare.data, 'C:\\Users\\me\\AppData\\Local\\svc');
});

test('a socket of 103 bytes is in its folder, and a longer one in the temporary folder', async () => {
  const socketIn = (home: string) => asSystem('linux', () => findPaths({ SVC_HOME: home }).socket);
  const longest = `/${'h'.repeat(103 - '//svc.sock'.length)}`;
  assert.is(await socketIn(longest), `${longest}/svc.sock`);
  const other = await socketIn(`${longest}h`);
  assert.match(other, /\/svc-\d+\/[0-9a-f]{16}\.sock$/);
  assert.is.not(await socketIn(`${longest}i`), other);
  // Bytes count, not characters.
  assert.match(await socketIn(`${longest.slice(1)}é`.replace(/^/, '/')), /[0-9a-f]{16}\.sock$/);
});

test('a home of Windows has one pipe, and its name has a bound', async () => {
  const pipeOf = (home: string) => asSystem('win32', () => findPaths({ SVC_HOME: home }).socket);
  const pipe = await pipeOf('C:\\Users\\me\\svc');
  assert.match(pipe, /^\\\\\.\\pipe\\svc-[0-9a-f]{16}$/);
  assert.is(await pipeOf('c:\\users\\ME\\svc'), pipe);
  assert.is.not(await pipeOf('C:\\Users\\you\\svc'), pipe);
  assert.is((await pipeOf(`C:\\${'long'.repeat(90)}`)).length, pipe.length);
});

test('modes count where the system has them', async () => {
  const file = join(folder, 'open');
  writeFileSync(file, 'a secret');
  chmodSync(file, 0o644);
  const home = join(folder, 'shared');
  mkdirSync(home);
  chmodSync(home, 0o777);
  const paths = findPaths({ SVC_HOME: home });
  for (const system of SYSTEMS) {
    const found = await asSystem(system, async () => [
      await refusal(readKeyFile(file, 'The key')),
      await refusal((async () => readPasswordFile(file))()),
      await refusal(prepareHome(paths, true)),
    ]);
    assert.equal(
      found.map((error) => error?.code ?? null),
      system === 'win32' ? [null, null, null] : UNIX_CODES,
      system,
    );
  }
  assert.is(statSync(home).mode & 0o777, 0o777);
});

const UNIX_CODES = ['provider_unauthorised', 'config_invalid', 'home_unusable'];

test('a file in use is replaced a moment later on Windows', async () => {
  const failing = (times: number, code: string) => {
    let left = times;
    return async () => {
      left -= 1;
      if (left >= 0) throw Object.assign(new Error(code), { code });
    };
  };
  const replace = (system: System, times: number, code = 'EPERM') =>
    asSystem(system, () => refusal(renameOver('a', 'b', failing(times, code))));
  assert.is(await replace('win32', 2), null);
  assert.is((await replace('win32', 1, 'ENOSPC'))?.message, 'ENOSPC');
  assert.is((await replace('linux', 1))?.message, 'EPERM');
  assert.ok(platformOf('win32').renameTries < 100);
});

test('a process is known by when it started', async () => {
  const pid = process.pid;
  const start = (system: System) => asSystem(system, () => platform.processStart(pid));
  await withCommands({ ps: 'echo "Ss   Fri Nov 27 03:00:00 2026"' }, async ({ calls }) => {
    const file = { pid, process_start: await start('darwin') };
    assert.is(file.process_start, 'Fri Nov 27 03:00:00 2026');
    assert.equal(calls(), [`ps -o stat=,lstart= -p ${pid}`]);
    assert.is(await asSystem('darwin', () => ownerOf(file)), 'ours');
    const other = { pid, process_start: 'Fri Nov 27 02:59:59 2026' };
    assert.is(await asSystem('darwin', () => ownerOf(other)), 'other');
  });
  await withCommands({ ps: 'echo "Z    Fri Nov 27 03:00:00 2026"' }, async () =>
    assert.is(await start('darwin'), 'zombie'),
  );
  await withCommands({ ps: 'exit 1' }, async () => assert.is(await start('darwin'), null));
  await withCommands({ powershell: 'echo 134400000000000000' }, async ({ calls }) => {
    assert.is(await start('win32'), '134400000000000000');
    assert.match(calls()[0] ?? '', `(Get-Process -Id ${pid}).StartTime`);
  });
  await withCommands({ powershell: 'exit 1' }, async () => {
    assert.is(await start('win32'), null);
    const file = { pid, process_start: '134400000000000000' };
    assert.is(await asSystem('win32', () => ownerOf(file)), 'unproven');
  });
});

test('a silent daemon of Windows is killed only when that was asked for', async () => {
  const paths = findPaths({ SVC_HOME: join(folder, 'silent') });
  const process_start = '134400000000000000';
  await withCommands({ powershell: `echo ${process_start}` }, async () => {
    // Of this process: a signal would end the test.
    const { folder: _, ...file } = runtimeFile;
    await writeRuntimeFile(paths.runtime, { ...file, pid: process.pid, process_start });
    const error = await asSystem('win32', () =>
      refusal(stopDaemon({ paths, force: false, timeout_ms: undefined })),
    );
    assert.is(error?.code, 'stop_timed_out');
  });
});

test('npm installs scripts of cmd.exe on Windows, and their words arrive as written', () => {
  const files = ['C:\\node\\npx.cmd', 'C:\\bin\\uvx.exe', 'C:\\my tools\\run.bat'];
  const env = { Path: 'C:\\bin;C:\\node', PATHEXT: '.COM;.EXE;.BAT;.CMD', ComSpec: 'C:\\cmd.exe' };
  const found = (...words: string[]) => toCmdCall(words, env, (file) => files.includes(file));
  assert.equal(found('uvx', 'a b'), { program: 'C:\\bin\\uvx.exe', args: ['a b'], options: {} });
  assert.equal(found('missing'), { program: 'missing', args: [], options: {} });
  const { program, args, options } = found('npx', '-y', 'a "b" %c%\\');
  assert.is(program, 'C:\\cmd.exe');
  assert.equal(options, { windowsVerbatimArguments: true });
  assert.equal(args.slice(0, 3), ['/d', '/s', '/c']);
  // What two readings by cmd.exe and one by a program of C leave of it.
  const line = args[3] ?? '';
  const twice = line.slice(1, -1).replace(/\^(.)/g, '$1');
  assert.is(twice.split(' ')[0], 'C:\\node\\npx.cmd');
  const last = twice.slice(twice.indexOf('-y')).replace(/\^(.)/g, '$1');
  assert.is(last, '-y" "a \\"b\\" %c%\\\\"');
  assert.match(found('C:\\my tools\\run').args[3] ?? '', /^"C:\\my\^ tools\\run\.bat/);
});

test('a leader and its descendants end together', async () => {
  const onUnix = asGroupLeader(['server', '--port', '1']);
  assert.is(onUnix.options.detached, true);
  assert.equal(onUnix.args.slice(-3), ['server', '--port', '1']);
  await withCommands({ taskkill: '' }, ({ calls }) =>
    asSystem('win32', () => {
      assert.equal(asGroupLeader(['server.exe', '--port', '1']), {
        program: 'server.exe',
        args: ['--port', '1'],
        options: { detached: false, windowsHide: true },
      });
      signalGroup(4242, 'SIGTERM');
      signalGroup(4242, 'SIGKILL');
      assert.equal(calls(), ['taskkill /PID 4242 /T /F']);
    }),
  );
});

test('a tool server has the variables without which Windows starts nothing', async () => {
  const config = { command: ['npx'], env: {}, cwd: null, url: null, headers: {} };
  const env = { SystemRoot: 'C:\\Windows', Path: 'C:\\node', OPENAI_API_KEY: 'a secret' };
  const references = { env, key: async () => null };
  const launch = await launchOf(config as never, references, folder);
  assert.equal(launch.env, { SystemRoot: 'C:\\Windows', Path: 'C:\\node' });
});

test('each system opens pages and files in its way', async () => {
  const opener = (system: System, env: NodeJS.ProcessEnv) => platformOf(system).opener(env)[0];
  assert.equal(
    [opener('linux', {}), opener('linux', { DISPLAY: ':0' }), opener('darwin', {})],
    [undefined, 'xdg-open', 'open'],
  );
  assert.is(opener('win32', {}), 'rundll32');
  const browsers = (system: System, env: NodeJS.ProcessEnv) => [
    ...platformOf(system).appBrowsers(env),
  ];
  const [first] = browsers('linux', { PATH: '/usr/local/bin:/usr/bin' });
  assert.is(first, '/usr/local/bin/chromium');
  const chrome = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
  assert.ok(browsers('darwin', {}).includes(chrome));
  const edge = 'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe';
  const env = { 'ProgramFiles(x86)': 'C:\\Program Files (x86)', LOCALAPPDATA: 'C:\\L' };
  assert.ok(browsers('win32', env).includes(edge));
  assert.ok(browsers('win32', env).includes('C:\\L\\Google\\Chrome\\Application\\chrome.exe'));
  assert.equal(platformOf('win32').edit('code --wait', 'C:\\a b\\config.json'), {
    program: 'code --wait "C:\\a b\\config.json"',
    args: [],
    options: { shell: true },
  });
  await withCommands({ vi: '' }, async ({ calls }) => {
    const { VISUAL, EDITOR } = process.env;
    delete process.env.VISUAL;
    delete process.env.EDITOR;
    await asSystem('darwin', () => openEditor('/tmp/a b'));
    Object.assign(process.env, VISUAL === undefined ? {} : { VISUAL });
    Object.assign(process.env, EDITOR === undefined ? {} : { EDITOR });
    assert.equal(calls(), ['vi /tmp/a b']);
  });
});

const SERVICE: Service = {
  command: ['C:\\Program Files\\node.exe', 'C:\\svc & more\\main.js', 'serve'],
  env: { SVC_HOME: 'D:\\svc' },
  envFile: 'D:\\svc\\service.env',
  start_s: 70,
  stop_s: 60,
  stderr: 'D:\\svc\\stderr.txt',
};

test('a task of Windows is of its user, has no time limit, and has the home', () => {
  const text = taskText(SERVICE, 'me');
  const line =
    '/d /s /c "set "SVC_HOME=D:\\svc" &amp; ' +
    '"C:\\Program Files\\node.exe" "C:\\svc &amp; more\\main.js" "serve""';
  assert.match(text, `<Arguments>${line}</Arguments>`);
  for (const part of ['<UserId>me<', '<ExecutionTimeLimit>PT0S<', 'Batteries>false<'])
    assert.match(text, part);
});

test('a task that cannot start is removed', async () => {
  const script = `case "$1" in
    /Create) head -c 2 "$4" | od -An -tx1 >"$(dirname "$0")/bom"; echo "$4" >"$(dirname "$0")/file";;
    /Run) echo refused >&2; exit 1;; esac`;
  await withCommands({ schtasks: script }, async ({ folder: at, calls }) => {
    const error = await asSystem('win32', () => refusal(serviceManager().install(SERVICE)));
    assert.is(error?.code, 'service_manager_failed');
    const { readFileSync } = await import('node:fs');
    assert.is(readFileSync(join(at, 'bom'), 'utf8').trim(), 'ff fe');
    assert.not(existsSync(readFileSync(join(at, 'file'), 'utf8').trim()));
    assert.equal(
      calls().map((call) => call.split(' ')[1]),
      ['/Create', '/Run', '/End', '/Delete'],
    );
  });
});

test('a launchd that refuses leaves no agent behind', async () => {
  const script = 'case "$1" in bootstrap) echo no >&2; exit 5;; esac';
  const { HOME } = process.env;
  process.env.HOME = folder;
  try {
    await withCommands({ launchctl: script }, ({ calls }) =>
      asSystem('darwin', async () => {
        const manager = serviceManager();
        assert.is(manager.file, join(folder, 'Library/LaunchAgents/svc.daemon.plist'));
        await manager.reach();
        const error = await refusal(manager.install(SERVICE));
        assert.is(error?.code, 'service_manager_failed');
        assert.is((await manager.status()).installed, false);
        assert.ok(calls().some((call) => call.startsWith('launchctl bootstrap gui/')));
      }),
    );
  } finally {
    process.env.HOME = HOME;
  }
});

test.run();
