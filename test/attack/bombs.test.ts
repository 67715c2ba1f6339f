import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { endWatch, loadAttack, runAttack } from './attack.ts';

/** The short form of `npm run attack bombs`, which takes as long as the others together. */
const { summary } = await loadAttack('bombs');

test(`bombs: ${summary}`, async () => {
  const { problems } = await runAttack('bombs', 'short');
  assert.equal(problems, []);
});

test.after(endWatch);

test.run();
