import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome, PROGRAM } from '../helpers/svc.ts';
import { hasTerminal } from '../helpers/terminal.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

const test = suite<{ home: Home }>('SIGHUP');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

const KEPT = 'SIGHUP ends no daemon without a terminal';

test('nohup holds for a daemon', async ({ home }) => {
  const life = await serve(home, { wrapper: ['nohup'] });
  process.kill(life.pid, 'SIGHUP');
  await waitFor('it heard the signal', () => life.printed().includes(KEPT));
  assert.is((await life.ask((client) => client.call('health'))).ready, true);
  assert.equal(await life.stop(), { code: 0, signal: null });
});

test('nohup holds for a command that follows', async ({ home }) => {
  const life = await serve(home);
  const { child, ended, stdout } = home.spawn(['logs', '--follow', '--tail', '100'], {
    wrapper: ['nohup'],
  });
  await waitFor('it follows', () => stdout().includes('ready'));
  // The system delivers the lower signal first.
  child.kill('SIGHUP');
  child.kill('SIGTERM');
  assert.is.not((await ended).signal, 'SIGHUP');
  await life.stop();
});

/** A daemon in the foreground of a shell at a terminal. */
function atTerminal(home: Home, before: string) {
  const line = `${before} '${process.execPath}' '${PROGRAM}' serve; exit $?`;
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    env: { ...home.env, TERM: 'xterm', SHELL: '/bin/sh' },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 120_000,
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { ended, text: () => text };
}

(hasTerminal ? test : test.skip)('a daemon ends with its terminal', async ({ home }) => {
  const { ended, text } = atTerminal(home, '');
  await waitFor('it is ready', () => text().includes('ready after'));
  process.kill((await runtimeOf(home)).pid, 'SIGHUP');
  assert.is(await ended, 0, text());
});

(hasTerminal ? test : test.skip)(
  'a shell that ignores it holds at a terminal',
  async ({ home }) => {
    const { ended, text } = atTerminal(home, "trap '' HUP;");
    await waitFor('it is ready', () => text().includes('ready after'));
    process.kill((await runtimeOf(home)).pid, 'SIGHUP');
    await waitFor('it heard the signal', () => text().includes(KEPT));
    assert.is((await home.svc(['stop'])).code, 0);
    assert.is(await ended, 0, text());
  },
);

test.run();
