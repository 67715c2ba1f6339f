import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { failover } from './failover.ts';

/** The short form of `npm run torture failover`. */
test('runs of two targets lose nothing and are answered once while the first target dies twice', async () => {
  const result = await failover({ runs: 60, clients: 8 });
  assert.equal(result.problems, []);
  assert.equal([result.lost, result.twice], [0, 0], JSON.stringify(result));
  assert.is(result.kills, 2);
  assert.ok(result.runs >= 60, JSON.stringify(result));
  assert.is(result.first + result.second + result.cut, result.runs, JSON.stringify(result));
  assert.ok(result.first > 0 && result.second > 0 && result.moved > 0, JSON.stringify(result));
});

test.run();
