import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { isReady, serve } from './process.ts';

const test = suite<{ home: Home }>('a daemon with a blocked store thread');

test.before.each((context) => {
  context.home = makeHome({ SVC_LIMIT_DRAIN_MS: '0', SVC_LIMIT_CLOSE_GRACE_MS: '100' });
});
test.after.each(({ home }) => home.close());

for (const [name, close_ms, isThird, output] of [
  ['it exits when its time is over', '300', false, /"msg":"stopped by this failure"/],
  ['it exits at the third signal', '240000', true, /"msg":"left at once/],
] as const) {
  test(name, async ({ home }) => {
    const daemon = serve(home, 'held', { SVC_LIMIT_CLOSE_MS: close_ms });
    await waitFor('the daemon is ready', isReady(daemon), { within_ms: 50_000 });
    spawnSync('mkfifo', [join(home.folder, 'held')]);
    daemon.child.kill('SIGTERM');
    daemon.child.kill('SIGINT');
    let hasEnded = !isThird;
    void daemon.ended.then(() => {
      hasEnded = true;
    });
    // A signal that is sent while the same one is pending is lost.
    await waitFor('it exits', () => {
      if (!hasEnded) daemon.child.kill('SIGTERM');
      return hasEnded;
    });
    assert.equal(await daemon.ended, { code: null, signal: 'SIGKILL' }, daemon.out());
    assert.match(daemon.out(), output);
  });
}

test.run();
