import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureEngine } from './engine.ts';

/** The short form of `npm run torture engine`. */
test('an engine that is killed in an answer with a seed has the same text, and leaves nothing', async () => {
  const { problems, kills, answers, wrong, loads } = await tortureEngine({
    kills: 2,
    loads: 2,
    seed: 3,
    signal: new AbortController().signal,
  });
  assert.equal(problems, []);
  assert.equal(kills, { alone: 1, 'beside answers without a seed': 1 });
  assert.equal([answers, wrong, loads], [2, 0, 2]);
});

test.run();
