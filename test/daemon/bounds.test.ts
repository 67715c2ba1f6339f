import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { isReady, serve } from './process.ts';

const test = suite<{ home: Home }>('a daemon with a silent disk');

test.before.each((context) => {
  context.home = makeHome({
    SVC_LIMIT_DRAIN_MS: '0',
    SVC_LIMIT_CLOSE_MS: '500',
    SVC_LIMIT_CLOSE_GRACE_MS: '100',
  });
});
test.after.each(async ({ home }) => {
  await home.close();
});

for (const [trouble, code, fails] of [
  ['full when ready', 'store_full', false],
  ['silent when ready', 'stop_timed_out', true],
] as const) {
  test(`a stop ends in time when the store records nothing: ${trouble}`, async ({ home }) => {
    const daemon = serve(home, trouble);
    await waitFor('the daemon is ready', isReady(daemon), { within_ms: 50_000 });
    daemon.child.kill('SIGUSR2');
    await waitFor('the disk is in trouble', () => /in trouble/.test(daemon.out()));
    daemon.child.kill('SIGTERM');
    daemon.child.kill('SIGTERM');
    const { code: exit, signal } = await daemon.ended;
    assert.is(signal, null, daemon.out());
    // On a full disk the stop hands over all runs. After a silent disk no record is certain.
    assert.is(exit !== 0, fails);
    assert.match(daemon.out(), new RegExp(code));
  });
}

for (const [trouble, code, start_ms] of [
  ['opens never', 'start_timed_out', '1000'],
  // Long enough to open the store on a busy machine.
  ['full when opened', 'store_full', '8000'],
] as const) {
  test(`a start ends in time when the store records nothing: ${trouble}`, async ({ home }) => {
    const daemon = serve(home, trouble, { SVC_LIMIT_START_MS: start_ms });
    const { code: exit, signal } = await daemon.ended;
    assert.is(signal, null, daemon.out());
    assert.is.not(exit, 0);
    assert.match(daemon.out(), new RegExp(code));
  });
}

test.run();
