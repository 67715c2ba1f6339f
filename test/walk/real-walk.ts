import * as assert from 'uvu/assert';
import { possible } from '../store/inject.ts';
import { canMount } from './disk.ts';
import { edgesOf, type MachineName } from './edges.ts';
import { excuseOf } from './excuses.ts';
import { livesOf } from './lives.ts';
import { leadLives } from './real.ts';

/** Leads the lives of one machine. Throws when an edge that an outside can cause was not walked, as their logs tell. */
export async function walkForReal(name: MachineName): Promise<void> {
  const walked = (await leadLives(livesOf(name))).of(name);
  const edges = edgesOf(name);
  const unknown = [...walked].filter((edge) => !edges.has(edge));
  assert.equal(unknown, [], `the walk over the graph did not find: ${unknown.join('; ')}`);
  const left = [...edges].filter(
    (edge) =>
      !walked.has(edge) &&
      excuseOf(name, edge) === null &&
      (canMount || !NEEDS_DISK.test(edge)) &&
      (possible || !NEEDS_TRACE.test(edge)),
  );
  assert.equal(left, [], `not walked: ${left.join('; ')}`);
}

const NEEDS_DISK = /running\.disk_full|history_pruned/;
const NEEDS_TRACE = /disk_stalled/;
