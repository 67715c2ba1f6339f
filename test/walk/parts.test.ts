import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf } from './edges.ts';
import { walkParts } from './walk-parts.ts';

/** `npm run walk` has more of them. */
const SCENARIOS = 150;

test('random scenarios of the real parts keep every promise, and refuse every late event', async () => {
  const { walked, stale } = await walkParts(SCENARIOS);
  assert.ok(stale > 2 * SCENARIOS, `${stale} late events`);
  assert.ok(walked.events > 15 * SCENARIOS, `${walked.events} events`);
  for (const name of ['daemon', 'run'] as const) {
    const edges = edgesOf(name);
    for (const edge of walked.of(name))
      assert.ok(edges.has(edge), `the walk of ${name} did not know ${edge}`);
  }
  assert.ok(walked.of('run').size >= 35, `${walked.of('run').size} edges of a run`);
});

test.run();
