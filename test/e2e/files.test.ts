import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { possible, inject as withFault } from '../kernel/store/inject.ts';
import { inject } from '../torture/disk.ts';

const test = suite<{ home: Home }>('files that the daemon cannot use');
const faulty = possible ? test : test.skip;
if (!possible) console.log('skipped: faults of the disk cannot be injected here');

test.before.each((context) => {
  context.home = makeHome({ SVC_MODEL: 'none' });
});
test.after.each(({ home }) => home.close());

test('a folder in the place of the socket is named, with what to do about it', async ({ home }) => {
  mkdirSync(home.paths.socket, { recursive: true, mode: 0o700 });
  const { code, stderr } = await home.svc(['serve']);
  assert.is(code, 6);
  assert.match(stderr, `error: ${home.paths.socket} is a folder`);
  assert.match(stderr, 'hint: Move it away');
});

for (const [what, fault, file] of [
  [
    'the token cannot get its name',
    'link,linkat,rename,renameat,renameat2:error=EIO',
    (home: Home) => home.paths.token,
  ],
  [
    'the folders cannot be made private',
    'chmod,fchmodat:error=EACCES',
    (home: Home) => home.paths.data,
  ],
] as const) {
  faulty(`a start in which ${what} names the file and the cause`, async ({ home }) => {
    const { code, stderr } = await home.svc(['serve'], { wrapper: withFault(fault) });
    assert.is(code, 6, stderr);
    assert.match(stderr, file(home));
    assert.match(stderr, /\((EIO|EACCES)\)/);
    assert.not.match(stderr, /Something unexpected/);
  });
}

faulty('a start that reads a slow log is ended by svc stop', async ({ home }) => {
  await home.svc(['start']);
  await home.svc(['stop']);
  const slow = ['-P', home.paths.database];
  const [strace = '', ...words] = withFault('pread64:delay_enter=500000');
  const start = home.spawn(['serve', '--json'], { wrapper: [strace, ...slow, ...words] });
  await waitFor('it reads the log', () => / starts: pid /.test(start.stdout()), {
    within_ms: 60_000,
  });
  const { code, stdout, stderr } = await home.svc(['stop']);
  assert.is(code, 0, stderr);
  assert.match(stdout, /^svc has stopped \(pid \d+\)\.\n$/);
  assert.match((await start.ended).stdout, 'stopped before the event log was open');
});

for (const when of [1, 3])
  faulty(`a used up quota at the write ${when} of a start is a full disk`, async ({ home }) => {
    await home.svc(['start']);
    await home.svc(['stop']);
    const wrapper = withFault(`pwrite64:error=EDQUOT:when=${when}+`);
    const { code, stderr } = await home.svc(['serve'], { wrapper });
    assert.is(code, 4, stderr);
    assert.match(stderr, 'error: The disk is full');
  });

faulty(
  'a stop that cannot remove the runtime file says so, and nobody takes it for a crash',
  async ({ home }) => {
    const daemon = home.spawn(['serve']);
    const { pid } = await runtimeOf(home);
    await waitFor('the daemon is ready', async () => (await home.svc(['health'])).code === 0);
    const release = await inject(pid, 'unlink,unlinkat:error=EACCES');
    daemon.child.kill('SIGTERM');
    const { code, stderr } = await daemon.ended;
    await release();
    assert.is(code, 6, stderr);
    assert.match(
      stderr,
      `its runtime file ${home.paths.runtime} cannot be removed: permission denied (EACCES)`,
    );
    assert.ok(existsSync(home.paths.runtime));
    assert.is((await home.svc(['status'])).code, 3);
  },
);

test('SIGUSR1 opens no debugger', async ({ home }) => {
  const daemon = home.spawn(['serve']);
  const { pid } = await runtimeOf(home);
  await waitFor('the daemon is ready', async () => (await home.svc(['health'])).code === 0);
  process.kill(pid, 'SIGUSR1');
  await waitFor('the log says that it came', () =>
    readFileSync(home.paths.logs.concat('/svc.log'), 'utf8').includes('SIGUSR1'),
  );
  daemon.child.kill('SIGTERM');
  const { code, stderr } = await daemon.ended;
  assert.is(code, 0);
  assert.not.match(stderr, /debugger/i);
});

test.run();
