import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf, MACHINES } from './edges.ts';
import { excuses } from './excuses.ts';
import { readWalked, walkedText } from './walked.ts';

test('what the diagrams are coloured by is what is walked: else run npm run walk', () => {
  assert.ok(readWalked() === walkedText(), 'machines/diagrams/walked/walked.json is stale');
});

test('every excuse is for an edge that there is', () => {
  for (const name of MACHINES) {
    const edges = [...edgesOf(name)];
    for (const excuse of excuses[name])
      assert.ok(
        edges.some((edge) => excuse.edges.test(edge)),
        `${name}: ${excuse.edges}`,
      );
  }
});

test.run();
