import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf, MACHINES, type StreamMachine } from './edges.ts';
import { walkCrashes, walkSimplePaths } from './walk-crash.ts';
import { type KernelWalk, walkKernel } from './walk-kernel.ts';

/** The walks, each made once. */
const walks = new Map<StreamMachine, Promise<KernelWalk>>();

function walked(name: StreamMachine): Promise<KernelWalk> {
  const walk = walks.get(name) ?? walkKernel(name);
  walks.set(name, walk);
  return walk;
}

for (const name of MACHINES) {
  const edges = [...edgesOf(name)].sort();

  test(`${name}: every path through the kernel has the state of the fold, and what is refused changes nothing`, async () => {
    const walk = await walked(name);
    assert.equal([...walk.edges].sort(), edges, 'add the events to test/machines/models/');
    assert.ok(
      walk.paths >= edges.length &&
        walk.refused > (name === 'lease' || name === 'conversation' ? 10 : 500),
      `${walk.paths} paths, ${walk.refused} refusals`,
    );
  });

  test(`${name}: every path, cut off by a crash, is recovered from the log`, async () => {
    const walk = await walked(name);
    assert.is(await walkCrashes(name, walk), walk.paths);
  });
}

test('daemon: every simple path goes through the kernel, and the next boot finds each cut of it', async () => {
  const { paths, cuts } = await walkSimplePaths();
  assert.ok(paths >= 4900 && cuts >= paths, `${paths} paths, ${cuts} cuts`);
});

test.run();
