import { wrong } from '../runtime/fields.ts';

/** The parameters after the `?` of a request target. One that is repeated or not known is refused by its name. */
export type Query = ReadonlyMap<string, string>;

export function readQuery(target: string, known: readonly string[]): Query {
  const query = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(target.split('?').slice(1).join('?'))) {
    if (!known.includes(name))
      throw wrong(
        name,
        `${JSON.stringify(name.slice(0, 80))} is not a parameter here; there ${known.length === 0 ? 'are none' : `are ${known.join(', ')}`}.`,
      );
    if (query.has(name)) throw wrong(name, `${name} is given more than once.`);
    query.set(name, value);
  }
  return query;
}

/** A whole number in decimal digits; undefined where it is not given. */
export function readWhole(
  query: Query,
  name: string,
  range: { min: number; max: number },
): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw wrong(name, `${name} must be a whole number from ${range.min} to ${range.max}.`);
}

export function readWord<T extends string>(
  query: Query,
  name: string,
  words: readonly T[],
): T | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  const word = words.find((candidate) => candidate === text);
  if (word !== undefined) return word;
  throw wrong(name, `${name} must be one of ${words.join(', ')}.`);
}
