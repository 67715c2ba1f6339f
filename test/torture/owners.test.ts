import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureOwners } from './owners.ts';

/** The short form of `npm run torture owners`. */
test('a process that finds another one starting the daemon waits for it, after a kill and a stop too', async () => {
  const { signal } = new AbortController();
  const { problems, rounds, answers, kills } = await tortureOwners({ rounds: 1, crowd: 6, signal });
  assert.equal(problems, []);
  assert.equal([rounds, answers, kills], [1, 6 + 6, 1]);
});

test.run();
