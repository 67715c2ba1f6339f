import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mutants } from './mutants.ts';
import { simulate } from './simulate.ts';

/**
 * Each planted bug must be found within this many simulations. Otherwise the simulation proves
 * nothing.
 */
const SEEDS_MOST = 3000;

for (const mutant of mutants)
  test(`found: ${mutant.name}`, async () => {
    for (let seed = 1; seed <= SEEDS_MOST; seed += 1) {
      const { violation, steps } = await simulate(seed, { mutant });
      if (violation === null) continue;
      process.stdout.write(`  seed ${seed}, step ${steps}: ${violation.message.slice(0, 140)}\n`);
      assert.ok(
        mutant.breaks.includes(violation.invariant),
        `${violation.message}, where one of ${mutant.breaks} was expected`,
      );
      return;
    }
    assert.unreachable(`not found in ${SEEDS_MOST} simulations`);
  });

test.run();
