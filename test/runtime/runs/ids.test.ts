import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newBootId, newRunId } from '../../../src/runtime/runs/ids.ts';

test('ids are unique and sort by the time of their creation, however many are made', () => {
  const ids = Array.from({ length: 5000 }, newRunId);
  assert.is(new Set(ids).size, ids.length);
  assert.equal([...ids].sort(), ids);
  assert.ok(ids.every((id) => /^run_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)));
});

test('ids of different times share no random part', async () => {
  const parts = new Set<string>();
  for (let at = 0; at < 100; at += 1) {
    const before = Date.now();
    while (Date.now() === before);
    parts.add(newBootId().slice(-16));
  }
  assert.is(parts.size, 100);
  const letters = new Set([...parts].join(''));
  assert.is(letters.size, 32, 'every letter occurs');
});

test.run();
