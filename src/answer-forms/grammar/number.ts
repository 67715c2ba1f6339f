/** Bounds of a number, from its schema. Null: none. No bound has more than 15 digits. */
export interface Bounds {
  least: number | null;
  most: number | null;
  /** The bound itself is not allowed. */
  isAbove: boolean;
  isBelow: boolean;
}

/** Digits of a number without a bound. All of these are exact in a double. */
const DIGITS = 15;
export const LARGEST = 10 ** DIGITS - 1;
/** Of a number with a bound on its places: a double says with so many whether it is a multiple. */
const DIGITS_OF_MULTIPLES = 12;

export function boundsOf(schema: Readonly<Record<string, unknown>>): Bounds {
  const number = (word: string, none: number) =>
    typeof schema[word] === 'number' ? schema[word] : none;
  const [least, above] = [number('minimum', -Infinity), number('exclusiveMinimum', -Infinity)];
  const [most, below] = [number('maximum', Infinity), number('exclusiveMaximum', Infinity)];
  const [low, high] = [Math.max(least, above), Math.min(most, below)];
  return {
    least: low === -Infinity ? null : Math.max(low, -LARGEST),
    most: high === Infinity ? null : Math.min(high, LARGEST),
    isAbove: above >= least,
    isBelow: below <= most,
  };
}

/** The same bounds of whole numbers, each included. */
export function wholeBounds({ least, most, isAbove, isBelow }: Bounds): WholeBounds {
  return {
    least: least === null ? null : isAbove ? Math.floor(least) + 1 : Math.ceil(least),
    most: most === null ? null : isBelow ? Math.ceil(most) - 1 : Math.floor(most),
  };
}

/** Whole bounds, each included, that have all numbers within the given ones. */
export function outerBounds({ least, most, isAbove, isBelow }: Bounds): Bounds {
  const isBroken = (bound: number | null) => bound !== null && !Number.isInteger(bound);
  return {
    least: least === null ? null : Math.floor(least),
    most: most === null ? null : Math.ceil(most),
    isAbove: isAbove && !isBroken(least),
    isBelow: isBelow && !isBroken(most),
  };
}

type WholeBounds = Pick<Bounds, 'least' | 'most'>;

/** The grammar of all whole numbers within bounds. Null: there are none. */
export function integerRule({ least, most }: WholeBounds): string | null {
  if (least === null && most === null) return 'integer';
  const [from, to] = [least ?? -LARGEST, most ?? LARGEST];
  if (from > to) return null;
  const ways = [];
  if (from < 0) ways.push(`"-" (${naturalRule(Math.max(1, -to), -from)})`);
  if (to >= 0) ways.push(naturalRule(Math.max(0, from), to));
  return `(${ways.join(' | ')})`;
}

/**
 * The grammar of numbers within whole bounds, with at most so many places: null for any, which are
 * at most 15. Null: there are no such numbers.
 */
export function numberRule(
  { least, most, isAbove, isBelow }: Bounds,
  places: number | null = null,
): string | null {
  if (least === null && most === null && places === null) return 'number';
  const largest = places === null ? LARGEST : 10 ** (DIGITS_OF_MULTIPLES - places) - 1;
  const [from, to] = [Math.max(least ?? -largest, -largest), Math.min(most ?? largest, largest)];
  const isOpen = { least: least !== null && isAbove, most: most !== null && isBelow };
  if (from > to) return null;
  const some = { places: places ?? DIGITS };
  const negative =
    from < 0
      ? positiveRule(Math.max(0, -to), -from, {
          ...some,
          isAbove: to <= 0 && isOpen.most,
          isBelow: isOpen.least,
        })
      : '';
  const positive =
    to >= 0
      ? positiveRule(Math.max(0, from), to, {
          ...some,
          isAbove: from >= 0 && isOpen.least,
          isBelow: isOpen.most,
        })
      : '';
  const ways = [negative && `"-" (${negative})`, positive].filter((way) => way !== '');
  return ways.length === 0 ? null : `(${ways.join(' | ')})`;
}

/** Numbers from 0 or more. `isAbove`, `isBelow`: the bound itself is not allowed. */
function positiveRule(
  from: number,
  to: number,
  { isAbove, isBelow, places }: { isAbove: boolean; isBelow: boolean; places: number },
): string {
  const ways = [];
  const whole = isAbove ? from + 1 : from;
  if (isAbove && from < to) ways.push(`"${from}." [0-9]{0,${places - 1}} [1-9]`);
  if (whole < to) ways.push(`(${naturalRule(whole, to - 1)}) ("." [0-9]{1,${places}})?`);
  if (!isBelow && whole <= to) ways.push(`"${to}" ("." "0"{1,${places}})?`);
  return ways.join(' | ');
}

/** All whole numbers from 0 or more, by their number of digits. */
function naturalRule(from: number, to: number): string {
  const ways: string[] = [];
  for (let digits = `${from}`.length; digits <= `${to}`.length; digits += 1) {
    const [low, high] = [digits === 1 ? 0 : 10 ** (digits - 1), 10 ** digits - 1];
    ways.push(rangeRule(`${Math.max(from, low)}`, `${Math.min(to, high)}`));
  }
  return ways.join(' | ');
}

/** All texts of digits between two of the same length. */
function rangeRule(from: string, to: string): string {
  if (from === to) return `"${from}"`;
  let at = 0;
  while (from[at] === to[at]) at += 1;
  const rest = from.length - at - 1;
  const [low, high] = [Number(from[at]), Number(to[at])];
  const ways: string[] = [];
  const isWhole = (text: string, digit: string) => text.slice(at + 1) === digit.repeat(rest);
  const [first, last] = [isWhole(from, '0') ? low : low + 1, isWhole(to, '9') ? high : high - 1];
  if (first > low) ways.push(`"${low}" (${rangeRule(from.slice(at + 1), '9'.repeat(rest))})`);
  if (first <= last) {
    const any = rest === 0 ? '' : ` [0-9]{${rest}}`;
    ways.push(`[${first}-${last}]${any}`);
  }
  if (last < high) ways.push(`"${high}" (${rangeRule('0'.repeat(rest), to.slice(at + 1))})`);
  const begin = at === 0 ? '' : `"${from.slice(0, at)}" `;
  return `${begin}(${ways.join(' | ')})`;
}
