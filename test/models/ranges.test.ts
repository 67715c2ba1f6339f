import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  addInterval,
  bytesIn,
  gapsIn,
  type Interval,
  isIntervals,
} from '../../src/models/intervals.ts';
import { type Claim, Ranges } from '../../src/models/ranges.ts';

/** Which bytes are there, and which connection fetches which: compared with a list of all bytes. */

const SIZE = 60;

/** The same numbers at each run. */
function* numbers(): Generator<number> {
  for (let state = 42; ; state = (state * 1_103_515_245 + 12_345) % 2 ** 31) yield state;
}

function bytesOf(list: readonly Interval[]): number[] {
  return Array.from({ length: SIZE }, (_, at) => at).filter((at) =>
    list.some(([from, to]) => at >= from && at < to),
  );
}

test('intervals are what a set of bytes is, sorted and apart', () => {
  const random = numbers();
  const next = (below: number) => (random.next().value as number) % below;
  for (let round = 0; round < 300; round += 1) {
    let list: Interval[] = [];
    const bytes = new Set<number>();
    for (let step = 0; step < 8; step += 1) {
      const from = next(SIZE);
      const to = Math.min(SIZE, from + next(12));
      list = addInterval(list, [from, to]);
      for (let at = from; at < to; at += 1) bytes.add(at);
    }
    assert.equal(
      bytesOf(list),
      [...bytes].sort((a, b) => a - b),
    );
    assert.is(bytesIn(list), bytes.size);
    assert.ok(isIntervals(list), JSON.stringify(list));
    assert.is(bytesIn(gapsIn(list, SIZE)), SIZE - bytes.size);
    assert.equal(
      bytesOf(gapsIn(list, SIZE)).filter((at) => bytes.has(at)),
      [],
    );
  }
});

test('a list of another form is no list of intervals', () => {
  for (const value of [
    null,
    {},
    [[1]],
    [[2, 1]],
    [[-1, 1]],
    [[0, 1.5]],
    [
      [4, 6],
      [0, 2],
    ],
    [
      [0, 4],
      [2, 6],
    ],
  ])
    assert.not.ok(isIntervals(value), JSON.stringify(value));
});

test('every byte is fetched, and none by two connections at one time', () => {
  const random = numbers();
  const next = (below: number) => (random.next().value as number) % below;
  for (let round = 0; round < 200; round += 1) {
    let have: Interval[] = round % 3 === 0 ? [[20, 30]] : [];
    const ranges = new Ranges({ have: () => have, size: SIZE, piece: 4, position: 0 });
    const claims: (Claim & { at: number })[] = [];
    let at: number | null = 0;
    const get = (from: number, to: number) => {
      assert.is(
        bytesIn(gapsIn(have, SIZE)) - bytesIn(gapsIn(addInterval(have, [from, to]), SIZE)),
        to - from,
      );
      have = addInterval(have, [from, to]);
    };
    for (let step = 0; bytesIn(have) < SIZE; step += 1) {
      assert.ok(step < 1000, 'it ends');
      const claim = next(3) === 0 ? ranges.claim() : null;
      if (claim !== null) claims.push({ ...claim, at: claim.from });
      const chosen = claims[next(Math.max(1, claims.length))];
      if (chosen !== undefined && next(2) === 0) {
        const to = Math.min(chosen.to, chosen.at + 1 + next(3));
        get(chosen.at, to);
        chosen.at = to;
        const isLost = next(10) === 0;
        if (to === chosen.to || isLost) {
          claims.splice(claims.indexOf(chosen), 1);
          for (const open of [...claimsOf(ranges)])
            if (open.from === chosen.from && open.to === chosen.to) ranges.release(open);
        }
      } else if (at !== null) {
        const to = Math.min(ranges.end, at + 1 + next(5));
        if (to === at) at = null;
        else {
          ranges.advance(to);
          get(at, to);
          at = to;
        }
        if (at === null) ranges.advance(null);
      }
    }
  }
});

test('a file of unknown size, and one that is nearly there, has one connection', () => {
  const have = () => [];
  const unknown = new Ranges({ have, size: Number.POSITIVE_INFINITY, piece: 4, position: 0 });
  assert.is(unknown.claim(), null);
  assert.is(unknown.end, Number.POSITIVE_INFINITY);
  assert.is(new Ranges({ have, size: 7, piece: 4, position: 0 }).claim(), null);
  const large = new Ranges({ have, size: 8, piece: 4, position: 0 });
  assert.equal(large.claim(), { from: 4, to: 8 });
  assert.is(large.end, 4);
});

/** The open claims. */
function claimsOf(ranges: Ranges): Set<Claim> {
  return (ranges as unknown as { claims: Set<Claim> }).claims;
}

test.run();
