import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  idleBetween,
  idleCores,
  threadsMost,
} from '../../../src/providers/local/engine/measured/idle.ts';

for (const [available, idle, most] of [
  [2, 2, 2],
  [2, 1.6, 2],
  [2, 1.4, 1],
  [2, 0, 1],
  [8, 7.7, 8],
  [8, 3.2, 3],
  [1, 1, 1],
  // The process may use four of sixteen cores.
  [4, 15.8, 4],
  [4, null, 4],
] as const)
  test(`with ${available} cores and ${idle} idle ones, at most ${most} threads are used`, () =>
    assert.is(threadsMost(available, idle), most));

test('idle cores are the sum of the idle parts of all cores', () => {
  const before = [
    { idle: 100, total: 1000 },
    { idle: 50, total: 900 },
    { idle: 7, total: 70 },
  ];
  const after = [
    { idle: 200, total: 1100 },
    { idle: 75, total: 1000 },
    { idle: 7, total: 70 },
  ];
  assert.is(idleBetween(before, after), 2.25);
});

test('a system that does not say what its cores do limits nothing', () => {
  assert.is(idleBetween([], []), null);
  assert.is(idleBetween([{ idle: 1, total: 2 }], []), null);
});

test('this machine has no more idle cores than cores', async () => {
  const idle = await idleCores();
  assert.ok(idle === null || (idle >= 0 && idle <= 4096), String(idle));
});

test.run();
