import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { startFakeDaemon } from './fake-daemon.ts';

const test = suite<{ home: Home }>('svc restart');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

test('a mistake in the configuration is told while the daemon still runs, and with words that help', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  for (const [text, env] of [
    ['{ "htpp": "127.0.0.1:0" }', {}],
    ['{}', { SVC_LIMIT_QUEUE_RUNS: 'many' }],
  ] as const) {
    writeFileSync(home.paths.config, text);
    const { code, stdout, stderr } = await home.svc(['restart', '--json'], { env });
    assert.equal([code, stdout], [6, '']);
    const { error } = JSON.parse(stderr);
    assert.is(error.code, 'config_invalid');
    // That command reads the same configuration, and would fail the same way.
    assert.not.match(error.hint, 'svc config show');
    assert.equal(daemon.asked, []);
  }
  await daemon.close();
});

test.run();
