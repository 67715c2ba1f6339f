import { SvcError } from '../../../errors.ts';
import type { Flags } from '../context.ts';

/** Parsed values of flags; undefined for a flag that is not given. All throw usage. */

export function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name];
  if (value === '') throw new SvcError('usage', `--${name} must not be empty.`, { param: name });
  return typeof value === 'string' ? value : undefined;
}

/** The values of a flag that may be given several times. */
export function listFlag(flags: Flags, name: string): readonly string[] | undefined {
  const value = flags[name];
  const values = typeof value === 'string' ? [value] : value;
  if (values === undefined || values === true) return undefined;
  if (values.includes(''))
    throw new SvcError('usage', `--${name} must not be empty.`, { param: name });
  return values;
}

/** Digits only: `1e3`, `0x10`, `+5` and `5.0` are refused. */
export function wholeFlag(
  flags: Flags,
  name: string,
  { min, max, of }: { min: number; max: number; of?: string },
): number | undefined {
  const value = flags[name];
  if (value === undefined) return undefined;
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new SvcError(
    'usage',
    `--${name} must be ${of === undefined ? '' : `${of}: `}a whole number ${range(min, max)}, ` +
      `not ${JSON.stringify(value)}.`,
    { param: name },
  );
}

/** The number of an event of the log. */
export function eventFlag(flags: Flags, name: string, min = 1): number | undefined {
  const of = 'the number of an event of the log';
  return wholeFlag(flags, name, { min, max: Number.MAX_SAFE_INTEGER, of });
}

export function numberFlag(
  flags: Flags,
  name: string,
  { min, max }: { min: number; max: number },
): number | undefined {
  const value = flags[name];
  if (value === undefined) return undefined;
  const number =
    typeof value === 'string' && /^\d*\.?\d+$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new SvcError(
    'usage',
    `--${name} must be a number ${range(min, max)}, not ${JSON.stringify(value)}.`,
    { param: name },
  );
}

/** Seconds on the command line, or a time such as `10m`; milliseconds in the code. */
export function secondsFlag(
  flags: Flags,
  name: string,
  { min, max = DAY_S }: { min: number; max?: number },
): number | undefined {
  const value = flags[name];
  if (value === undefined) return undefined;
  const seconds = readSeconds(value);
  if (seconds >= min && seconds <= max) return Math.round(seconds * 1000);
  throw new SvcError(
    'usage',
    `--${name} must be a number of seconds ${range(min, max)}, or a time such as 90s, 10m ` +
      `or 2h, not ${JSON.stringify(value)}.`,
    { param: name },
  );
}

/** Not a number for a text in another form. */
function readSeconds(value: Flags[string]): number {
  const [, number = '', unit = 's'] =
    /^(\d{0,12}\.?\d+)(ms|s|m|h|d)?$/.exec(typeof value === 'string' ? value : '') ?? [];
  return number === '' ? Number.NaN : Number(number) * (UNIT_S[unit] ?? Number.NaN);
}

const UNIT_S: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };
const DAY_S = 86_400;

export function choiceFlag<T extends string>(
  flags: Flags,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = flags[name];
  if (value === undefined) return undefined;
  const chosen = choices.find((choice) => choice === String(value).toLowerCase());
  if (chosen !== undefined) return chosen;
  throw new SvcError(
    'usage',
    `--${name} must be one of ${choices.join(', ')}, not ${JSON.stringify(value)}.`,
    { param: name },
  );
}

function range(min: number, max: number): string {
  return max >= Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
}
