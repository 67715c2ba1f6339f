import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ShortLived } from '../../src/async/short-lived.ts';

setFlagsFromString('--expose-gc');
const collect: NodeJS.GCFunction = runInNewContext('gc');

test('entries come and go, in the order of insertion', () => {
  const map = new ShortLived<string, number>();
  for (const [at, key] of ['b', 'a', '__proto__', 'toString'].entries()) map.set(key, at);
  map.set('b', 9);
  assert.equal([map.size, map.keys()], [4, ['b', 'a', '__proto__', 'toString']]);
  assert.equal(map.values(), [9, 1, 2, 3]);
  assert.equal(
    [map.delete('a'), map.delete('a'), map.has('a'), map.get('a')],
    [true, false, false, undefined],
  );
  assert.equal([map.get('__proto__'), map.has('hasOwnProperty'), map.size], [2, false, 3]);
});

/** Bytes more in the old generation after 3 000 entries of 8 kB. A map has 128 at one time. */
function oldBytesAfter(map: Map<string, number[]> | ShortLived<string, number[]>): number {
  // Now the table of the map is in the old generation, as that of a long-lived map is.
  for (let at = -128; at < 0; at += 1) map.set(`run_${at}`, []);
  collect();
  collect();
  const before = oldBytes();
  for (let at = 0; at < 3000; at += 1) {
    map.set(`run_${at}`, new Array(1000).fill(at));
    map.delete(`run_${at - 128}`);
    if (at % 500 === 499) collect({ type: 'minor' });
  }
  return oldBytes() - before;
}

function oldBytes(): number {
  const spaces = getHeapSpaceStatistics();
  return spaces.find((space) => space.space_name === 'old_space')?.space_used_size ?? 0;
}

test('what has left does not survive the collections of the young generation', () => {
  const bytes = oldBytesAfter(new ShortLived());
  assert.ok(bytes < 4 * 2 ** 20, `${bytes} bytes more in the old generation`);
});

test('what has left a Map does survive them, or this class is no longer needed', () => {
  const bytes = oldBytesAfter(new Map());
  assert.ok(bytes > 10 * 2 ** 20, `${bytes} bytes more in the old generation`);
});

test.run();
