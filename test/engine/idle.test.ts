import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { idleBetween, idleSince, leftByOthers, readUse } from '../../src/engine/measured/idle.ts';

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

test('what this process computed leaves its cores idle', () => {
  const core = (idle: number, total: number) => ({ idle, total });
  const before = { cores: [core(0, 0), core(0, 0)], own: 100, at: 0 };
  // Half a second: the own threads took one core, and another process a tenth of the other.
  const after = { cores: [core(0, 500), core(450, 500)], own: 600, at: 500 };
  assert.is(leftByOthers(before, after), 1.9);
  assert.is(leftByOthers(before, { ...after, own: 100 }), 0.9);
  assert.is(leftByOthers(before, { ...after, cores: [] }), null);
});

test('the cores of this machine are looked at for 100 ms or more', async () => {
  const before = readUse();
  const idle = await idleSince(before);
  assert.ok(performance.now() - before.at >= 99);
  assert.ok(idle === null || (idle >= 0 && idle <= 4096), String(idle));
});

test.run();
