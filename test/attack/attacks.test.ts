import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { attackNames, endWatch, loadAttack, runAttack } from './attack.ts';

/**
 * The short form of `npm run attack`: each promise holds, `/livez` answers each time, and memory
 * stays in its bound. `bombs.test.ts` has the longest one.
 */
const names = attackNames().filter((name) => name !== 'bombs');

for (const name of names) {
  const { summary } = await loadAttack(name);
  test(`${name}: ${summary}`, async () => {
    const { problems } = await runAttack(name, 'short');
    assert.equal(problems, []);
  });
}

test.after(endWatch);

test('there are attacks', () => {
  assert.ok(names.length > 0);
});

test.run();
