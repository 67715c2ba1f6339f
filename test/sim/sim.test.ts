import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { simulate } from './simulate.ts';
import { Stats } from './stats.ts';

/** The same simulations on each machine. `npm run sim` runs the others. */
const SEEDS = 300;

test('the same seed gives the same simulation, step by step', async () => {
  for (const seed of [1, 7, 42, 20_000, 2 ** 33 + 5]) {
    const [first, second] = [
      await simulate(seed, { traced: true }),
      await simulate(seed, { traced: true }),
    ];
    assert.is(first.hash, second.hash);
    assert.is(first.steps, second.steps);
    assert.equal(first.trace, second.trace);
  }
});

test('different seeds give different simulations', async () => {
  const hashes = new Set<number>();
  for (let seed = 1; seed <= 50; seed += 1) hashes.add((await simulate(seed)).hash);
  assert.is(hashes.size, 50);
});

test('under any fault, the daemon keeps what it acknowledged, ends each run once and repeats no byte', async () => {
  const stats = new Stats();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const outcome = await simulate(seed);
    assert.is(
      outcome.violation,
      null,
      `npm run sim -- --seed ${seed}: ${outcome.violation?.message}`,
    );
    stats.add(outcome.stats);
  }
  for (const what of [
    'crashes',
    'engine losses',
    'appends that failed',
    'full disks',
    'stops',
    'lost effects',
    'clock jumps',
    'attempts that resume',
    'calls carried out',
    'lost calls',
    'decisions',
  ])
    assert.ok((stats.counts.get(what) ?? 0) > 0, `there were no ${what}`);
});

test.run();
