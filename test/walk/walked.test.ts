import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { edgesOf, WALKED } from './edges.ts';
import { exemptions } from './exemptions.ts';
import { readWalked, walkedText } from './walked.ts';

test('what the diagrams are coloured by is what is walked: else run npm run walk', () => {
  assert.ok(readWalked() === walkedText(), 'machines/diagrams/walked/walked.json is stale');
});

test('every exemption is for an edge that there is', () => {
  for (const name of WALKED) {
    const edges = [...edgesOf(name)];
    for (const exemption of exemptions[name])
      assert.ok(
        edges.some((edge) => exemption.edges.test(edge)),
        `${name}: ${exemption.edges}`,
      );
  }
});

test.run();
