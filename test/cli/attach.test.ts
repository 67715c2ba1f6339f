import { existsSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { output, run, startFakeDaemon } from './fake-daemon.ts';

const test = suite<{ home: Home }>('svc runs attach');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

test('a daemon that was stopped stays stopped: exit 3', async ({ home }) => {
  for (const json of [[], ['--json']]) {
    const { code, stdout, stderr } = await home.svc(['runs', 'attach', 'run_1', ...json]);
    assert.equal([code, stdout], [3, '']);
    assert.match(stderr, 'not running');
    assert.not.ok(existsSync(home.paths.runtime), 'no daemon was started');
  }
});

test('a daemon that was there and died is waited for', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  let asked = 0;
  daemon.on('run.follow', ({ event, result, hangUp }) => {
    asked += 1;
    event(output(asked === 1 ? 'half' : ' and half', asked + 1));
    if (asked === 1) hangUp();
    else result({ ...run, state: 'completed', output: 'half and half' });
  });
  const { code, stdout } = await home.svc(['runs', 'attach', 'run_1']);
  assert.equal([code, stdout], [0, 'half and half\n']);
  await daemon.close();
});

test('an id that is empty is refused, and asks for nothing', async ({ home }) => {
  const daemon = await startFakeDaemon(home);
  for (const args of [
    ['runs', 'attach', ''],
    ['runs', 'cancel', ''],
    ['runs', 'export', ''],
  ]) {
    const { code, stdout, stderr } = await home.svc([...args, '--json']);
    assert.equal([code, stdout], [2, '']);
    assert.is(JSON.parse(stderr).error.code, 'usage');
  }
  assert.equal(daemon.asked, []);
  await daemon.close();
});

test.run();
