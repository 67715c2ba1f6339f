import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf, MACHINES } from './edges.ts';
import { walkCrashes, walkSimplePaths } from './walk-crash.ts';
import { walkKernel } from './walk-kernel.ts';

for (const name of MACHINES) {
  const edges = [...edgesOf(name)].sort();

  test(`${name}: every path through the kernel has the state of the fold, and what is refused changes nothing`, async () => {
    const walk = await walkKernel(name);
    assert.equal([...walk.edges].sort(), edges);
    assert.ok(
      walk.paths >= edges.length && walk.refused > 500,
      `${walk.paths} paths, ${walk.refused} refusals`,
    );
  });

  test(`${name}: every path, cut off by a crash, is recovered from the log`, async () => {
    const walk = await walkCrashes(name);
    assert.equal([...walk.edges].sort(), edges);
    assert.ok(walk.cuts > edges.length, `${walk.cuts} cuts`);
  });
}

test('daemon: every simple path goes through the kernel, and the next boot finds each cut of it', async () => {
  const { paths, cuts } = await walkSimplePaths();
  assert.ok(paths >= 4900 && cuts >= 36_000, `${paths} paths, ${cuts} cuts`);
});

test.run();
