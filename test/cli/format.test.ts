import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  bytes,
  duration,
  parameters,
  shortenLine,
  waitedMs,
} from '../../src/cli/terminal/print/format.ts';

/** Each figure that a command prints, at both sides of each edge. */

test('a time is in the unit that a reader expects', () => {
  const times: readonly (readonly [ms: number, text: string])[] = [
    [-5, '0 s'],
    [0, '0 s'],
    [0.2, '1 ms'],
    [99, '99 ms'],
    [100, '0.1 s'],
    [9949, '9.9 s'],
    [9999, '10 s'],
    [10_499, '10 s'],
    [119_999, '120 s'],
    [120_000, '2 min'],
    [7_199_999, '120 min'],
    [7_200_000, '2 h'],
    [172_799_999, '48 h'],
    [172_800_000, '2 days'],
  ];
  assert.equal(
    times.map(([ms]) => [ms, duration(ms)]),
    times,
  );
});

test('a size is in its unit, with one digit after the point below a hundred', () => {
  const sizes: readonly (readonly [count: number | null, text: string])[] = [
    [null, '-'],
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1023 B'],
    [1024, '1 KiB'],
    [1536, '1.5 KiB'],
    [102_348, '99.9 KiB'],
    [102_400, '100 KiB'],
    [102_912, '101 KiB'],
    [1024 ** 2, '1 MiB'],
    [1024 ** 5, '1024 TiB'],
  ];
  assert.equal(
    sizes.map(([count]) => [count, bytes(count)]),
    sizes,
  );
});

test('parameters of a model are counted in thousands, millions and billions', () => {
  assert.equal(
    [null, 499, 500, 999_999, 1e6, 1_550_000, 999_000_000, 1e9, 7_250_000_000].map(parameters),
    ['-', '0K', '1K', '1000K', '1M', '1.6M', '999M', '1B', '7.3B'],
  );
});

test('a text has its first line, and all of one that fits', () => {
  assert.equal(
    ['abcd', 'abcde', ' ab', 'ab\n', 'ab\ncd'].map((text) => shortenLine(text, 4)),
    ['abcd', 'abc…', 'ab', 'ab', 'ab…'],
  );
});

test('a run has waited for what is over', () => {
  assert.is(waitedMs({}), 0);
  assert.is(waitedMs({ waited_ms: 1500 }), 1500);
});

test.run();
