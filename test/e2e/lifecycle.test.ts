import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { platform } from '../../src/home/platform.ts';
import { makePausedHome, type PausedHome, runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome, type Started } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite<{ home: Home }>('the life of a daemon');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

const status = async (home: Home) => {
  const outcome = await home.svc(['status', '--json']);
  return { ...outcome, record: JSON.parse(outcome.stdout || '{}') };
};
const isGone = (pid: number) => {
  try {
    process.kill(pid, 0);
    return platform.processStart(pid) === 'zombie';
  } catch {
    return true;
  }
};

/** Does it with a home whose provider the test holds, besides the one that each test has. */
async function withHeldHome(work: (home: PausedHome) => Promise<void>): Promise<void> {
  const home = await makePausedHome();
  try {
    await work(home);
  } finally {
    await home.close();
  }
}

test('start returns when it is ready, again says so, a second daemon is refused, its files are for their owner only, stop returns when the process is gone', async ({
  home,
}) => {
  assert.is((await status(home)).code, 3);
  const started = await home.svc(['start']);
  assert.is(started.code, 0, started.stderr);
  const { code, record } = await status(home);
  assert.is(code, 0);
  assert.is(record.state, 'ready');
  assert.match(record.addresses.http, /^http:\/\/127\.0\.0\.1:\d+$/);
  const { pid } = await runtimeOf(home);
  assert.is(record.pid, pid);

  const again = await home.svc(['start']);
  assert.is(again.code, 0);
  assert.match(again.stdout + again.stderr, /already/);
  assert.is((await runtimeOf(home)).pid, pid);

  const second = await home.svc(['serve', '--json']);
  assert.is(second.code, 1);
  assert.match(second.stderr, /daemon_already_running/);
  assert.is((await status(home)).record.pid, pid);

  const missing = await home.svc(['import', 'no-such-file']);
  assert.is(missing.code, 2, 'the file is looked at before the daemon that has the log');
  assert.match(
    missing.stderr,
    'error: no-such-file cannot be used: there is no such file (ENOENT).',
  );

  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
  assert.is(mode(home.paths.data), '700');
  for (const file of [home.paths.database, home.paths.token, home.paths.socket, home.paths.runtime])
    assert.is(mode(file), '600', file);

  const stopped = await home.svc(['stop']);
  assert.is(stopped.code, 0, stopped.stderr);
  assert.ok(isGone(pid));
  assert.not.ok(existsSync(home.paths.runtime));
  assert.is((await status(home)).code, 3);
  assert.is((await home.svc(['stop'])).code, 0);
});

test('of starts that race one wins, and each other says which daemon is there and writes nothing into its log; the next start says how that one ended', async ({
  home,
}) => {
  const starts = await Promise.all(Array.from({ length: 4 }, () => home.svc(['start'])));
  assert.equal(
    starts.map(({ code }) => code),
    [0, 0, 0, 0],
  );
  assert.is(starts.filter(({ stdout }) => stdout.startsWith('svc is ready')).length, 1);
  const { pid, boot_id } = await runtimeOf(home);
  const late = await home.svc(['serve']);
  assert.equal(
    [late.code, late.stderr.split('\n')[0]],
    [1, `error: A daemon runs already, with pid ${pid}.`],
  );
  const log = readdirSync(home.paths.logs).map((name) =>
    readFileSync(join(home.paths.logs, name), 'utf8'),
  );
  const lines = [...log.join('').split('\n'), ...late.stdout.split('\n')];
  assert.is(lines.filter((line) => line.includes(' starts: pid ')).length, 1);
  assert.not.match(lines.join('\n'), /daemon_already_running|SQLITE_BUSY/);

  // A killed daemon is distinguished from a stopped one, and the next start records how it ended.
  process.kill(pid, 'SIGKILL');
  await waitFor('the killed daemon is gone', () => isGone(pid));
  const after = await status(home);
  assert.is(after.code, 1);
  assert.is(after.record.state, 'crashed');
  assert.is((await home.svc(['start'])).code, 0);
  const { record } = await status(home);
  assert.is(record.last_boot.ending, 'killed');
  assert.is(record.last_boot.boot_id, boot_id);
  assert.is((await home.svc(['restart'])).code, 0);
  assert.is((await status(home)).record.last_boot.ending, 'clean');
});

test('a port that another program uses is named, with exit 6, and nothing is left behind', async ({
  home,
}) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = other.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const outcome = await home.svc(['start', '--http', `127.0.0.1:${port}`]);
  other.close();
  assert.is(outcome.code, 6);
  assert.match(outcome.stderr, new RegExp(String(port)));
  assert.is((await status(home)).code, 3);
});

test('a runtime file whose pid belongs to another program does no harm', async ({ home }) => {
  const bystander = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e9)'], {
    stdio: 'ignore',
  });
  await once(bystander, 'spawn');
  mkdirSync(dirname(home.paths.runtime), { recursive: true, mode: 0o700 });
  const stale = {
    pid: bystander.pid,
    process_start: 'another life:1',
    boot_id: 'boot_old',
    version: '0.0.0',
    started_at: new Date().toISOString(),
    program: '',
    node: '',
    addresses: { http: null, grpc: null, socket: null },
  };
  writeFileSync(home.paths.runtime, JSON.stringify(stale));
  writeFileSync(home.paths.socket, 'left over');
  try {
    assert.is((await status(home)).code, 1);
    await home.svc(['stop', '--force']);
    assert.is(bystander.exitCode, null);
    assert.is(bystander.signalCode, null);
    assert.is((await home.svc(['start'])).code, 0);
    assert.is((await status(home)).record.state, 'ready');
  } finally {
    bystander.kill('SIGKILL');
  }
});

test('a home that others can read is refused, with what to do about it', async ({ home }) => {
  chmodSync(home.folder, 0o755);
  const outcome = await home.svc(['start']);
  assert.is(outcome.code, 6);
  assert.match(outcome.stderr, /chmod 700/);
});

test('a configuration that cannot be read is named with line and column', async ({ home }) => {
  writeFileSync(home.paths.config, '{\n  "http": "127.0.0.1:0",\n  "queue": oops\n}\n');
  const outcome = await home.svc(['start']);
  assert.is(outcome.code, 6);
  assert.match(outcome.stderr, /config\.json:3:\d+/);
});

test('a file that is no event log is refused and left as it is', async ({ home }) => {
  mkdirSync(home.paths.data, { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.database, 'this is a letter, not a database\n'.repeat(200));
  const before = readFileSync(home.paths.database);
  const outcome = await home.svc(['start']);
  assert.is(outcome.code, 6, outcome.stderr);
  assert.match(outcome.stderr, /events\.db is not a database/);
  assert.ok(before.equals(readFileSync(home.paths.database)));
});

test('an address that others can reach is refused while nothing asks for a token', async ({
  home,
}) => {
  const outcome = await home.svc(['start', '--http', '0.0.0.0:0'], { env: { SVC_AUTH: 'false' } });
  assert.is(outcome.code, 6);
  const grpc = await home.svc(['start', '--grpc', '0.0.0.0:0']);
  assert.is(grpc.code, 6);
});

/** A daemon in the foreground, in the middle of the answer of a run. */
async function serveHalfAnAnswer(home: PausedHome): Promise<{ serving: Started; run: Started }> {
  const serving = home.spawn(['serve']);
  await waitFor('the daemon is ready', () => /"msg":"ready /.test(serving.stdout()));
  const run = home.spawn(['run', 'hello', '--no-start']);
  await waitFor('the run is streaming', () => home.server.streams.size === 1);
  home.server.say('half ');
  return { serving, run };
}

test('Ctrl-C drains a daemon in the foreground: the active run ends well, then the process', () =>
  withHeldHome(async (home) => {
    const { serving, run } = await serveHalfAnAnswer(home);
    serving.child.kill('SIGINT');
    await waitFor(
      'the daemon drains',
      async () => (await status(home)).record.state_path === 'stopping.draining',
    );
    home.server.say('and half');
    home.server.finish();
    const answer = await run.ended;
    assert.is(answer.code, 0, answer.stderr);
    assert.is(answer.stdout, 'half and half\n');
    assert.is((await serving.ended).code, 0);
  }));

test('a second Ctrl-C does not wait for the active run', () =>
  withHeldHome(async (home) => {
    const { serving, run } = await serveHalfAnAnswer(home);
    await waitFor('the text is there', () => run.stdout() === 'half ');
    serving.child.kill('SIGINT');
    await waitFor(
      'the daemon drains',
      async () => (await status(home)).record.state_path === 'stopping.draining',
    );
    serving.child.kill('SIGINT');
    assert.is((await serving.ended).code, 0);
    const answer = await run.ended;
    assert.is(answer.code, 10, answer.stderr);
    assert.match(answer.stdout, /^half /);
  }));

test.run();
