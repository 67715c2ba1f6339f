import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelLoad } from '../../../src/runtime/contract.ts';
import { watchLoad } from '../../../src/transport/control/watch-load.ts';

test('each change of the load is reported once, and nothing after its end', async () => {
  const looks: (ModelLoad | null)[] = [
    ...[null, { model: 'a', progress: 0 }, { model: 'a', progress: 0 }],
    ...[{ model: 'a', progress: 0.5 }, null, { model: 'b', progress: 0.5 }],
  ];
  const reported: ModelLoad[] = [];
  const { promise: isOver, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  const ofRun = () => {
    asked += 1;
    const load = looks.shift() ?? null;
    if (looks.length === 0) resolve();
    return load;
  };
  const end = watchLoad({ loads: { ofRun } } as never, 'run_1', (load) => reported.push(load));
  // The timer of the watch keeps no process alive.
  const alive = setInterval(() => {}, 60_000);
  await isOver;
  clearInterval(alive);
  end();
  const before = asked;
  assert.equal(reported, [
    { model: 'a', progress: 0 },
    { model: 'a', progress: 0.5 },
    { model: 'b', progress: 0.5 },
  ]);
  await new Promise((done) => setImmediate(done));
  assert.is(asked, before);
});

test.run();
