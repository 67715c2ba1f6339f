import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf, WALKED } from '../walk/edges.ts';
import { runScenarios } from '../walk/real.ts';
import { IN_TESTS, scenariosInTests } from '../walk/scenarios.ts';

/**
 * Some paths through a real daemon; `npm run walk` has all of them. The kernel walks every edge of
 * every machine in test/walk/kernel.test.ts.
 */
test('a real daemon walks only edges that its machines have, and those of its scenarios', async () => {
  const scenarios = scenariosInTests();
  assert.is(scenarios.length, IN_TESTS.length);
  const walked = await runScenarios(scenarios);
  for (const name of WALKED) {
    const edges = edgesOf(name);
    const unknown = [...walked.of(name)].filter((edge) => !edges.has(edge));
    assert.equal(unknown, [], `the walk over the graph of ${name} did not find them`);
  }
  for (const [name, least] of LEAST)
    assert.ok(walked.of(name).size >= least, `${name}: ${[...walked.of(name)].join('; ')}`);
});

/** Edges that these scenarios always walk. */
const LEAST = [
  ['daemon', 20],
  ['run', 12],
  ['provider', 4],
  ['tool_call', 12],
] as const;

test.run();
