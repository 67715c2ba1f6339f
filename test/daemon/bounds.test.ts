import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/paths.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite<{ home: Home }>('a daemon whose disk gives no answer');

test.before.each((context) => {
  context.home = makeHome({ SVC_LIMIT_DRAIN_MS: '0', SVC_LIMIT_CLOSE_MS: '500', SVC_LIMIT_GOODBYE_MS: '100' });
});
test.after.each(async ({ home }) => {
  await home.close();
});

/** A daemon in a process of its own, whose store does what the test says from a step on. */
function serve(home: Home, trouble: string, limits: NodeJS.ProcessEnv = {}) {
  const root = packageRoot();
  const args = ['--import', 'tsx', join(root, 'test', 'daemon', 'troubled-daemon.ts'), trouble];
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...home.env, ...limits },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
  }
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
  return { child, ended, out: () => out };
}

for (const [trouble, code] of [
  ['full when ready', 'store_full'],
  ['silent when ready', 'stop_timed_out'],
] as const) {
  test(`a stop ends in its time although nothing can be recorded: ${trouble}`, async ({ home }) => {
    const daemon = serve(home, trouble);
    await waitFor('the daemon is ready', () => /"msg":"ready"/.test(daemon.out()), { within_ms: 50_000 });
    daemon.child.kill('SIGUSR2');
    await waitFor('the disk is in trouble', () => /in trouble/.test(daemon.out()));
    daemon.child.kill('SIGTERM');
    daemon.child.kill('SIGTERM');
    const { code: exit, signal } = await daemon.ended;
    assert.is(signal, null, daemon.out());
    assert.is.not(exit, 0);
    assert.match(daemon.out(), new RegExp(code));
  });
}

for (const [trouble, code] of [
  ['opens never', 'start_timed_out'],
  ['full when opened', 'store_full'],
] as const) {
  test(`a start ends in its time although nothing can be recorded: ${trouble}`, async ({ home }) => {
    const daemon = serve(home, trouble, { SVC_LIMIT_START_MS: '1000' });
    const { code: exit, signal } = await daemon.ended;
    assert.is(signal, null, daemon.out());
    assert.is.not(exit, 0);
    assert.match(daemon.out(), new RegExp(code));
  });
}

test.run();
