import { SvcError } from '../errors.ts';

/** Reading the fields of a request: each mistake names the field (`param`) and what it should be. */
export type Fields = Readonly<Record<string, unknown>>;

/** The fields of a JSON object. One that is not known is refused, since it is most often a typing mistake. */
export function readFields(value: unknown, known: readonly string[]): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new SvcError('invalid_request', 'A JSON object is expected.');
  for (const name of Object.keys(value)) {
    if (!known.includes(name))
      throw wrong(
        name,
        `${JSON.stringify(name.slice(0, 80))} is not a field here; there are ${known.join(', ')}.`,
      );
  }
  return value as Fields;
}

/** A text of 1 to `max` characters without control characters; null where it is not given. */
export function readName(fields: Fields, name: string, max = 1024): string | null {
  const value = fields[name] ?? null;
  if (value === null) return null;
  if (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= max &&
    !hasLoneSurrogate(value) &&
    !CONTROL.test(value)
  )
    return value;
  throw wrong(name, `${name} must be a text of 1 to ${max} characters.`);
}

/** A number of the range; null where it is not given. */
export function readNumber(
  fields: Fields,
  name: string,
  range: { min: number; max: number; whole: boolean },
): number | null {
  const value = fields[name] ?? null;
  if (value === null) return null;
  const { min, max, whole } = range;
  if (
    typeof value === 'number' &&
    value >= min &&
    value <= max &&
    (!whole || Number.isInteger(value))
  )
    return value;
  throw wrong(name, `${name} must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}.`);
}

export function readFlag(fields: Fields, name: string): boolean | null {
  const value = fields[name] ?? null;
  if (value === null || typeof value === 'boolean') return value;
  throw wrong(name, `${name} must be true or false.`);
}

export function readChoice<T extends string>(
  fields: Fields,
  name: string,
  choices: readonly T[],
): T | null {
  const value = fields[name] ?? null;
  if (value === null) return null;
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  throw wrong(name, `${name} must be one of ${choices.join(', ')}.`);
}

/** Whether the text holds half of a surrogate pair, which UTF-8 cannot carry. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

export function wrong(param: string, message: string): SvcError {
  return new SvcError('invalid_request', message, { param: param.slice(0, 80) });
}

const CONTROL = /\p{Cc}/u;
