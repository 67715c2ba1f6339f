import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { pruneOrder, SAID, type SizedRun } from '../../../src/kernel/store/prune/order.ts';

const YOUNG_AT = 1000;
const LARGE = 100;

const sizes = fc.array(
  fc.record({
    provider: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.integer({ min: 1, max: 300 }),
    ended_at: fc.nat({ max: 2000 }),
  }),
  { maxLength: 60 },
);
const numbered = (runs: Omit<SizedRun, 'run_id' | 'accepted_seq'>[]): SizedRun[] =>
  runs.map((run, index) => ({ ...run, run_id: `run_${index}`, accepted_seq: index }));
const taken = (runs: SizedRun[], provider: string) =>
  runs.reduce((sum, run) => (run.provider === provider ? sum + run.bytes : sum), 0);
const rules = { large_bytes: LARGE, young_at: YOUNG_AT };
const order = (runs: SizedRun[], youngToo = true) =>
  [...pruneOrder(runs, { ...rules, youngToo: () => youngToo })].filter((next) => next !== SAID);

test('a provider loses a run only while no other uses more, and a small one only if no large run is left', () => {
  fc.assert(
    fc.property(sizes, (entries) => {
      let left = numbered(entries);
      for (const run of order(left)) {
        const large = left.filter(({ bytes }) => bytes > LARGE);
        const among = large.length > 0 ? large : left;
        assert.ok(among.includes(run));
        for (const other of ['a', 'b', 'c'])
          assert.ok(taken(among, run.provider) >= taken(among, other));
        left = left.filter((one) => one !== run);
      }
      assert.equal(left, [], 'each goes in the end');
    }),
  );
});

test('small young runs stay, and old runs of a provider go before its young ones', () => {
  fc.assert(
    fc.property(sizes, (entries) => {
      const runs = numbered(entries);
      const isYoung = (run: SizedRun) => run.ended_at > YOUNG_AT;
      assert.not(order(runs, false).some((run) => run.bytes <= LARGE && isYoung(run)));
      for (const provider of ['a', 'b', 'c']) {
        const gone = order(runs).filter((run) => run.provider === provider);
        for (const part of [
          gone.filter(({ bytes }) => bytes > LARGE),
          gone.filter(({ bytes }) => bytes <= LARGE),
        ]) {
          const young = part.map(isYoung);
          assert.equal(
            young,
            young.toSorted((a, b) => Number(a) - Number(b)),
          );
        }
      }
    }),
  );
});

test('the largest of the large runs goes first, and the oldest of the small ones', () => {
  const run = (bytes: number, ended_at: number) => ({ provider: 'a', bytes, ended_at });
  const runs = numbered([
    run(10, 5),
    run(200, 1),
    run(20, 3),
    run(300, 2),
    run(500, 1500),
    run(5, 1500),
  ]);
  assert.equal(
    order(runs).map(({ bytes }) => bytes),
    [300, 200, 500, 10, 20, 5],
  );
});

test('what earlier daemons said goes after the large runs, or before them if it frees as much', () => {
  const runs = numbered([10, 200, 300].map((bytes) => ({ provider: 'a', bytes, ended_at: 1 })));
  const bytes = (said_bytes: number) =>
    [...pruneOrder(runs, { ...rules, said_bytes, youngToo: () => true })].map((next) =>
      next === SAID ? next : next.bytes,
    );
  assert.equal(bytes(LARGE), [300, 200, SAID, 10]);
  assert.equal(bytes(LARGE + 1), [SAID, 300, 200, 10]);
});

test.run();
