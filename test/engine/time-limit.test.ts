import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { withinTime } from '../../src/engine/within-time.ts';
import { hasCode } from '../../src/errors.ts';

const LIMIT_MS = 50;
const test = suite('work with a time limit');

test('it returns what the work returns, and throws what it throws', () => {
  assert.is(
    withinTime(LIMIT_MS, 'The work', () => 'rendered'),
    'rendered',
  );
  assert.throws(() => withinTime(LIMIT_MS, 'The work', () => fail('broken')), /broken/);
});

test('endless work is stopped, and the next work is done', () => {
  assert.throws(
    () => withinTime(LIMIT_MS, 'The work', endless),
    (error: unknown) => hasCode(error, 'engine_timed_out'),
  );
  assert.is(
    withinTime(LIMIT_MS, 'The work', () => 'rendered'),
    'rendered',
  );
});

test('limited work may call limited work', () => {
  const inner = () => withinTime(LIMIT_MS, 'The inner work', () => 1);
  const sum = () => inner() + inner();
  assert.is(withinTime(LIMIT_MS, 'The outer work', sum), 2);
  assert.is(inner(), 1);
});

test.run();

function fail(message: string): never {
  throw new Error(message);
}

/** Work that catches everything. */
function endless(): never {
  for (;;) {
    try {
      for (;;);
    } catch {}
  }
}
