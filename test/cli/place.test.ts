import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, makeHome, PROGRAM } from '../helpers/svc.ts';
import { type FakeDaemon, runtimeFile, startFakeDaemon } from './fake-daemon.ts';
import { startSleeper } from './sleeper.ts';

/** Where the command line looks for its home and for the daemon's socket. */
const test = suite<{ folder: string; home: Home; daemon: FakeDaemon }>('the place of a home');

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-place-'));
  // Its path is too long for a socket, which therefore lies in the temporary folder.
  context.home = makeHome({ SVC_HOME: join(context.folder, 'long'.repeat(30)), TMPDIR: tmpdir() });
  mkdirSync(context.home.paths.home, { mode: 0o700 });
  rmSync(dirname(context.home.paths.socket), { recursive: true, force: true });
  context.daemon = await startFakeDaemon(context.home);
});
test.after.each(async ({ folder, home, daemon }) => {
  await daemon.close();
  await home.close();
  rmSync(folder, { recursive: true, force: true });
});

test('a socket in the temporary folder is used only in a private folder', async ({
  home,
  daemon,
}) => {
  const folder = dirname(home.paths.socket);
  assert.is(dirname(folder), tmpdir());
  assert.is((await home.svc(['status'])).code, 0);
  const refused = async () => {
    daemon.asked.length = 0;
    for (const args of [['status'], ['run', 'secret'], ['health', '--source', 'socket']]) {
      const { code, stderr } = await home.svc([...args, '--json']);
      assert.equal([code, JSON.parse(stderr).error.code], [6, 'home_unusable'], args.join(' '));
    }
    assert.equal(daemon.asked, []);
  };
  chmodSync(folder, 0o777);
  await refused();
  chmodSync(folder, 0o700);
  renameSync(folder, `${folder}-real`);
  symlinkSync(`${folder}-real`, folder);
  await refused();
  rmSync(folder);
  renameSync(`${folder}-real`, folder);
  if (process.getuid?.() !== 0) return;
  chownSync(folder, 65_534, 65_534);
  await refused();
  chownSync(folder, 0, 0);
});

test('a daemon that was started with another temporary folder is found where it says', async ({
  folder,
  home,
}) => {
  const TMPDIR = join(folder, 'other');
  mkdirSync(TMPDIR);
  const sleeper = await startSleeper();
  await writeRuntimeFile(home.paths.runtime, {
    ...runtimeFile,
    pid: sleeper.pid,
    process_start: sleeper.process_start,
    addresses: { http: null, grpc: null, socket: home.paths.socket },
  });
  assert.is(
    (await home.svc(['status'], { env: { TMPDIR } })).code,
    process.platform === 'linux' ? 0 : 1,
  );
  await sleeper.end();
});

test('a user without an entry in the system has to set SVC_HOME, exit 6; the version needs no home', ({
  folder,
}) => {
  if (process.getuid?.() !== 0) return;
  const user = { uid: 54_321, gid: 54_321 };
  chmodSync(folder, 0o755);
  const svc = (args: string[], env: NodeJS.ProcessEnv, cwd = folder) =>
    spawnSync(process.execPath, [PROGRAM, ...args], {
      env: { PATH: process.env.PATH, TMPDIR: folder, ...env },
      ...user,
      cwd,
      encoding: 'utf8',
    });
  const reachable = svc(['version'], { SVC_HOME: folder });
  if (reachable.error !== undefined || reachable.status !== 0)
    return void console.log('skipped: the program cannot be read by other users');
  for (const args of [['status'], ['start'], ['run', 'p']]) {
    const { status, stderr } = svc([...args, '--json'], {});
    const { error } = JSON.parse(stderr);
    assert.equal([status, error.code], [6, 'home_unusable'], args.join(' '));
    assert.match(error.hint, 'SVC_HOME');
  }
  assert.is(svc(['version'], {}).status, 0);
  assert.is(svc(['status'], { SVC_HOME: join(folder, 'x'.repeat(120)) }).status, 3);
});

test('a relative SVC_HOME in a deleted folder is an error, exit 6', ({ folder }) => {
  if (process.platform !== 'linux') return;
  const gone = join(folder, 'gone');
  mkdirSync(gone);
  const line = 'cd "$2" && rmdir "$2" && exec "$0" "$1" status --json';
  const env = { PATH: process.env.PATH, HOME: folder, SVC_HOME: 'here' };
  const { status, stderr } = spawnSync('sh', ['-c', line, process.execPath, PROGRAM, gone], {
    env,
    encoding: 'utf8',
  });
  assert.equal([status, JSON.parse(stderr).error.code], [6, 'home_unusable']);
});

test.run();
