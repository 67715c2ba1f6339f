import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { inTurn } from '../../src/console/parts/act.js';

function workOf(): {
  calls: (() => Promise<string>) & { count(): number };
  end(text: string): void;
} {
  const open: ((text: string) => void)[] = [];
  let count = 0;
  const work = () => {
    count += 1;
    return new Promise<string>((resolve) => open.push(resolve));
  };
  return {
    calls: Object.assign(work, { count: () => count }),
    end: (text) => open.shift()?.(text),
  };
}

test('work that is under way is done once more for all calls that came meanwhile', async () => {
  const { calls, end } = workOf();
  const read = inTurn(calls);
  const first = read();
  const [second, third] = [read(), read()];
  assert.is(calls.count(), 1);
  end('older');
  assert.is(await first, 'older');
  assert.is(second, third);
  await Promise.resolve();
  assert.is(calls.count(), 2);
  end('newer');
  assert.equal(await Promise.all([second, third]), ['newer', 'newer']);
  assert.is(calls.count(), 2);
});

test('a failure reaches its own callers, and the next work begins', async () => {
  let count = 0;
  const read = inTurn(async () => {
    count += 1;
    if (count === 1) throw new Error('the first');
    return count;
  });
  const [first, second] = [read(), read()];
  assert.is(await first.catch((error: Error) => error.message), 'the first');
  assert.is(await second, 2);
  assert.is(await read(), 3);
});

test.run();
