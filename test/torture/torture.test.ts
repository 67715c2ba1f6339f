import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureRound } from './round.ts';

/** The short form of `npm run torture`. */
test('a daemon that is killed again and again under load loses nothing, repeats nothing and ends each run once', async () => {
  const result = await tortureRound({ seed: 7, cycles: 8, clients: 4, signal: new AbortController().signal });
  assert.equal(result.problems, []);
  assert.is(result.cycles, 8);
  assert.ok(result.counts.kills > 3 && result.acknowledged > 50 && result.runs > 5, JSON.stringify(result));
});

test.run();
