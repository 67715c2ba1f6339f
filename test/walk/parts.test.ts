import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf } from './edges.ts';
import { walkParts } from './walk-parts.ts';

test('random scenarios of the real parts keep every promise, and refuse every late event', async () => {
  const { walked, scenarios, stale } = await walkParts();
  assert.ok(stale > 1000, `${stale} late events`);
  assert.ok(walked.events > 100 * 60, `${walked.events} events in ${scenarios} scenarios`);
  for (const name of ['daemon', 'run'] as const) {
    const edges = edgesOf(name);
    for (const edge of walked.of(name))
      assert.ok(edges.has(edge), `the walk of ${name} did not know ${edge}`);
  }
  assert.ok(walked.of('run').size >= 35, `${walked.of('run').size} edges of a run`);
});

test.run();
