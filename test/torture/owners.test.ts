import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureOwners } from './owners.ts';

/** The short form of `npm run torture owners`. */
test('a process that finds another one starting the daemon waits for it, after a kill and a stop too', async () => {
  const { signal } = new AbortController();
  const { problems, rounds, answers, kills } = await tortureOwners({ rounds: 2, crowd: 8, signal });
  assert.equal(problems, []);
  assert.equal([rounds, answers, kills], [2, 8 + 2 * 6, 2]);
});

test.run();
