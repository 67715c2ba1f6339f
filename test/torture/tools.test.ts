import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureTools } from './tools.ts';

/** The short form of `npm run torture tools`. */
test('calls of tools are carried out once and decided once, whatever is killed', async () => {
  const { signal } = new AbortController();
  const result = await tortureTools({ kills: 18, clients: 4, seed: 5, signal });
  assert.equal(result.problems, []);
  assert.equal([result.twice, result.lost], [0, 0]);
  const { executions, by_svc, of_hostile, livez_asked } = result;
  assert.ok(of_hostile > 0, 'hostile servers were called');
  assert.ok(livez_asked > 0, 'it was watched');
  assert.ok(by_svc > 0 && executions > by_svc, JSON.stringify(result));
});

test.run();
