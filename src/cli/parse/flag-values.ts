import { SvcError } from '../../errors.ts';
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
  { min, max }: { min: number; max: number },
): number | undefined {
  const value = flags[name];
  if (value === undefined) return undefined;
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new SvcError(
    'usage',
    `--${name} must be a whole number ${range(min, max)}, not ${JSON.stringify(value)}.`,
    { param: name },
  );
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

/** Seconds on the command line, milliseconds in the code. */
export function secondsFlag(
  flags: Flags,
  name: string,
  { min, max = DAY_S }: { min: number; max?: number },
): number | undefined {
  const seconds = numberFlag(flags, name, { min, max });
  return seconds === undefined ? undefined : Math.round(seconds * 1000);
}

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
