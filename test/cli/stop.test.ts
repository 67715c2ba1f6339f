import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { folderOf, writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type FakeDaemon, runtimeFile, status, suiteWithDaemon } from './fake-daemon.ts';
import { startSleeper } from './sleeper.ts';

const test = suiteWithDaemon('svc stop');

const lifecycle = (daemon: FakeDaemon) =>
  daemon.asked.filter(({ method }) => method === 'lifecycle').map(({ params }) => params);

test('it returns when the daemon is gone, and says what it waits for', async ({ home, daemon }) => {
  daemon.on('status', ({ result }) =>
    result({ ...status, state: 'running', runs: { active: 2, queued: 1, finished: 0 } }),
  );
  daemon.on('lifecycle', ({ result, hangUp }) => {
    result({ state: 'stopping', state_path: 'stopping.draining' });
    hangUp();
  });
  const { code, stdout, stderr } = await home.svc(['stop', '--timeout', '7.5']);
  assert.is(code, 0);
  assert.match(stdout, /^svc has stopped \(pid \d+\)\.\n$/);
  assert.match(stderr, 'Waiting for 3 runs');
  assert.equal(lifecycle(daemon), [{ type: 'stop_requested', mode: 'drain', timeout_ms: 7500 }]);
});

test('--force is not waited for, and --json prints one object', async ({ home, daemon }) => {
  daemon.on('lifecycle', ({ hangUp }) => hangUp());
  const { code, stdout, stderr } = await home.svc(['stop', '--force', '--json']);
  assert.is(code, 0);
  assert.is(stderr, '');
  assert.equal(JSON.parse(stdout), {
    state: 'stopped',
    was_running: true,
    pid: process.pid,
    killed: false,
    runs: null,
  });
  assert.equal(lifecycle(daemon), [{ type: 'stop_requested', mode: 'force', timeout_ms: 0 }]);
});

test('it says what became of the runs', async ({ home, daemon }) => {
  for (const [runs, said] of [
    [
      { finished: 2, handed_over: 1, ended: 0 },
      ': 2 runs finished, 1 handed over to the next start.',
    ],
    [{ finished: 1, handed_over: 0, ended: 3 }, ': 1 run finished, 3 interrupted.'],
    [{ finished: 0, handed_over: 0, ended: 0 }, '.'],
  ] as const) {
    let answer = () => {};
    daemon.on('stopped', ({ result }) => {
      answer = () => result(runs);
    });
    daemon.on('lifecycle', ({ hangUp }) => {
      answer();
      hangUp();
    });
    assert.is((await home.svc(['stop'])).stdout, `svc has stopped (pid ${process.pid})${said}\n`);
    assert.equal(JSON.parse((await home.svc(['stop', '--json'])).stdout).runs, runs);
  }
});

test('a daemon that is stopping already is waited for', async ({ home, daemon }) => {
  daemon.on('lifecycle', ({ error, hangUp }) => {
    error(new SvcError('event_refused').body());
    hangUp();
  });
  assert.is((await home.svc(['stop'])).code, 0);
});

test('a daemon that does not end in its time: exit 1, and nothing is killed that is not proven ours', async ({
  home,
  daemon,
}) => {
  daemon.on('config', ({ result }) => result({ limits: { drain_ms: 0, close_ms: 0 } }));
  daemon.on('lifecycle', ({ result }) =>
    result({ state: 'stopping', state_path: 'stopping.closing' }),
  );
  const { code, stderr } = await home.svc(['stop', '--force', '--json']);
  assert.is(code, 1);
  assert.is(JSON.parse(stderr).error.code, 'stop_timed_out');
});

test('a daemon that closes the connection is asked once more', async ({ home, daemon }) => {
  daemon.on('status', ({ hangUp }) => {
    hangUp();
    daemon.on('status', ({ result }) => result(status));
  });
  daemon.on('lifecycle', ({ hangUp }) => hangUp());
  const { code, stderr } = await home.svc(['stop']);
  assert.is(code, 0, stderr);
  assert.is(lifecycle(daemon).length, 1);
});

test('a daemon that dies during the request has stopped', async ({ home, daemon }) => {
  daemon.on('status', ({ hangUp }) => {
    hangUp();
    void daemon.close();
  });
  const { code, stdout, stderr } = await home.svc(['stop']);
  assert.is(code, 0, stderr);
  assert.is(stdout, 'svc is not running.\n');
});

test('without a daemon it says so, exit 0', async ({ home, daemon }) => {
  await daemon.close();
  assert.equal(await home.svc(['stop']), {
    code: 0,
    signal: null,
    stdout: 'svc is not running.\n',
    stderr: '',
  });
});

test('a process of ours that does not answer is asked with SIGTERM, and with --force killed', async ({
  home,
  daemon,
}) => {
  await daemon.close();
  for (const [args, signal] of [
    [['stop'], 'SIGTERM'],
    [['stop', '--force'], 'SIGKILL'],
  ] as const) {
    const { pid, process_start, ended } = await startSleeper({ deaf: signal === 'SIGKILL' });
    await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, pid, process_start });
    const { code } = await home.svc(args);
    assert.is(code, 0);
    assert.is(await ended, signal);
  }
});

test('a process that starts and has no runtime file yet is ended too, and that of a copy is not', async ({
  home,
  daemon,
}) => {
  await daemon.close();
  const { runtime } = home.paths;
  for (const [args, signal] of [
    [['stop'], 'SIGTERM'],
    [['stop', '--force'], 'SIGKILL'],
  ] as const) {
    const [starting, copied] = [await startSleeper(), await startSleeper()];
    const note = { ...starting, folder: folderOf(runtime) };
    const file = ({ pid }: { pid: number }) => join(home.folder, `starting-${pid}.json`);
    writeFileSync(file(starting), JSON.stringify(note));
    const folder = { ...note.folder, inode: '1' };
    writeFileSync(file(copied), JSON.stringify({ ...copied, folder }));
    const { code, stdout } = await home.svc(args);
    const said =
      signal === 'SIGTERM'
        ? `svc has stopped (pid ${starting.pid}).\n`
        : `svc did not stop in time and was killed (pid ${starting.pid}). The next start recovers its runs.\n`;
    assert.equal([code, stdout], [0, said]);
    assert.is(await starting.ended, signal);
    assert.ok(copied.isAlive());
    assert.equal(
      readdirSync(home.folder).filter((name) => name.startsWith('starting-')),
      [],
    );
    await copied.end();
  }
});

test('a process that has the pid by now is left alone', async ({ home, daemon }) => {
  await daemon.close();
  const sleeper = await startSleeper();
  for (const process_start of ['0:1', `${sleeper.process_start}1`, null]) {
    await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, pid: sleeper.pid, process_start });
    assert.equal(await home.svc(['stop', '--force']), {
      code: 0,
      signal: null,
      stdout: 'svc is not running.\n',
      stderr: '',
    });
  }
  assert.ok(sleeper.isAlive());
  await sleeper.end();
});

test.run();
