import * as assert from 'uvu/assert';
import { possible } from '../store/inject.ts';
import { canMount } from './disk.ts';
import { edgesOf, type MachineName } from './edges.ts';
import { exemptionOf } from './exemptions.ts';
import { runScenarios } from './real.ts';
import { scenariosOf } from './scenarios.ts';

/** Runs the scenarios of one machine. Throws if their logs lack an edge that a test can cause. */
export async function walkForReal(name: MachineName): Promise<void> {
  const walked = (await runScenarios(scenariosOf(name))).of(name);
  const edges = edgesOf(name);
  const unknown = [...walked].filter((edge) => !edges.has(edge));
  assert.equal(unknown, [], `the walk over the graph did not find: ${unknown.join('; ')}`);
  const left = [...edges].filter(
    (edge) =>
      !walked.has(edge) &&
      exemptionOf(name, edge) === null &&
      (canMount || !NEEDS_DISK.test(edge)) &&
      (possible || !NEEDS_TRACE.test(edge)),
  );
  assert.equal(left, [], `not walked: ${left.join('; ')}`);
}

const NEEDS_DISK = /running\.disk_full|history_pruned/;
const NEEDS_TRACE = /disk_stalled/;
