import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { attackNames, endWatch, loadAttack, runAttack } from './attack.ts';

/**
 * The short form of `npm run attack`: each promise holds, `/livez` answers each time, and memory
 * stays in its bound.
 */
for (const name of attackNames()) {
  const { summary } = await loadAttack(name);
  test(`${name}: ${summary}`, async () => {
    const { problems } = await runAttack(name, 'short');
    assert.equal(problems, []);
  });
}

test.after(endWatch);

test('there are attacks', () => {
  assert.ok(attackNames().length > 0);
});

test.run();
