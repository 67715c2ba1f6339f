import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { askSeveralModels } from '../helpers/several-models.ts';

const TURN_MS = 2000;

test('three models with memory for two: no run fails, and loads are bounded by the turns', async () => {
  const found = await askSeveralModels({ clients: 6, runs: 30, tokens: 50, turn_ms: TURN_MS });
  assert.equal(found.statuses, { 200: 30 });
  assert.ok(found.most <= 2, `${found.most} models at one time`);
  assert.ok(found.loads >= 3, 'each model was loaded');
  // A model that waits for its clients leaves before its turn is over. Those of a busy machine are
  // slow, and even then it does not load more often than in the order of the requests.
  const most = Math.max(3 + Math.ceil(found.passed_ms / TURN_MS), found.loads_in_order);
  assert.ok(found.loads <= most, `${found.loads} loads of ${most}`);
});

test.run();
