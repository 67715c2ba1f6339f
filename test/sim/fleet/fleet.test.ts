import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Random } from '../random.ts';
import { type FleetMutant, fleetMutants } from './mutants.ts';
import { FleetWorld, Violation } from './world.ts';

/** Several kernels on one log: cut off, paused and killed at random. */

const SEEDS = 25;
/** A planted bug must be found within this many simulations. */
const SEEDS_MOST = 200;
const STEPS = 60;

const seen = { accepted: 0, fenced: 0 };

async function simulate(seed: number, mutant: FleetMutant | null): Promise<Violation | null> {
  const world = new FleetWorld(new Random(seed), mutant);
  try {
    await world.start();
    for (let step = 0; step < STEPS; step += 1) await world.step();
    await world.end();
    for (const [name, count] of Object.entries(world.counts))
      seen[name as keyof typeof seen] += count;
    return null;
  } catch (error) {
    if (error instanceof Violation) return error;
    throw error;
  }
}

test('a fleet loses nothing that it accepted, and a fenced node writes nothing', async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const violation = await simulate(seed, null);
    assert.is(violation?.message, undefined, `seed ${seed}`);
  }
  process.stdout.write(`  ${JSON.stringify(seen)}\n`);
  assert.ok(seen.accepted > 5 * SEEDS && seen.fenced > SEEDS);
});

for (const mutant of fleetMutants)
  test(`found: ${mutant.name}`, async () => {
    for (let seed = 1; seed <= SEEDS_MOST; seed += 1) {
      const violation = await simulate(seed, mutant);
      if (violation === null) continue;
      process.stdout.write(`  seed ${seed}: ${violation.message.slice(0, 140)}\n`);
      assert.ok(mutant.breaks.includes(violation.invariant), violation.message);
      return;
    }
    assert.unreachable(`not found in ${SEEDS_MOST} simulations`);
  });

test.run();
