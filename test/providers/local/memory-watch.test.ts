import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { processTree } from '../../../src/providers/local/memory-watch.ts';

if (process.platform === 'linux')
  test('a tree has a process, and the processes below it', async () => {
    const tree = await processTree(process.ppid);
    assert.is(tree[0], process.ppid);
    assert.ok(tree.includes(process.pid), String(tree));
    assert.is(new Set(tree).size, tree.length, String(tree));
  });
else console.log('skipped: processes are read on Linux only');

test('a tree without processes below it is one process', async () => {
  assert.equal(await processTree(2 ** 30), [2 ** 30]);
});

test.run();
