import * as v from 'valibot';

/**
 * The building blocks of the contract's schemas. A message continues a sentence that begins with
 * the name of the field.
 */

export const text = v.string('must be a text.');
export const flag = v.boolean('must be true or false.');
export const whole = v.pipe(v.number(), v.integer());
/** A whole number that may exceed 32 bits: a time, or a position in the log. */
export const large = v.pipe(v.number(), v.integer());
export const time = v.pipe(v.string(), v.isoTimestamp());
/** An object whose fields depend on its context. */
export const anything = v.record(v.string(), v.unknown());

/** The schemas that documents refer to by name, such as the OpenAPI document. */
export const names = new Map<string, v.GenericSchema>();

/** Gives a schema its name in documents. */
export function named<S extends v.GenericSchema>(name: string, schema: S): S {
  if (names.has(name)) throw new Error(`Two schemas have the name ${name}.`);
  names.set(name, schema);
  return schema;
}

export function oneOf<const T extends readonly string[]>(words: T) {
  return v.picklist(words, `must be one of ${words.join(', ')}.`);
}

/** An integer of the range. */
export function wholeFrom(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}.`;
  return v.pipe(
    v.number(message),
    v.integer(message),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
}

/** The same, and a larger one means the largest. */
export function wholeCapped(min: number, max: number) {
  return v.pipe(
    wholeFrom(min, Number.MAX_SAFE_INTEGER),
    v.transform((value) => Math.min(value, max)),
  );
}

export const count = wholeFrom(0, Number.MAX_SAFE_INTEGER);

export function numberFrom(min: number, max: number) {
  const message = `must be a number from ${min} to ${max}.`;
  return v.pipe(v.number(message), v.minValue(min, message), v.maxValue(max, message));
}

/** A text without control characters. OpenAPI documents have the pattern too. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it refuses them
export const PLAIN = /^[^\u0000-\u001f\u007f-\u009f]*$/;

/** A text of 1 to `max` characters without control characters. */
export function name(max = 1024) {
  const message = `must be a text of 1 to ${max} characters.`;
  return v.pipe(
    v.string(message),
    v.minLength(1, message),
    v.maxLength(max, message),
    v.regex(PLAIN, message),
    v.check((value) => value.isWellFormed(), message),
  );
}

/** The values of the schemas of `oneOfOrNull`. JSON Schema has no other way to list them. */
export const listed = new WeakMap<v.GenericSchema, readonly unknown[]>();

/** A field that may only have one of these values, or none. */
export function oneOfOrNull<const T extends readonly unknown[]>(values: T, message: string) {
  const schema = v.custom<T[number]>(
    (value) => values.some((each) => JSON.stringify(each) === JSON.stringify(value)),
    message,
  );
  listed.set(schema, values);
  return v.nullish(schema);
}

/** A list that has something in it. */
export function nonEmptyList<S extends v.GenericSchema>(item: S, message: string, empty: string) {
  return v.pipe(v.array(item, message), v.minLength(1, empty));
}

/** Stops at the first mistake of a long list: each of a million mistakes would be noted. */
export function withEarlyAbort<S extends v.GenericSchema>(schema: S): S {
  const run = schema['~run'];
  const brief: typeof run = (dataset, config) =>
    Array.isArray(dataset.value) && dataset.value.length > LONG
      ? run.call(schema, dataset, { ...config, abortEarly: true })
      : run.call(schema, dataset, config);
  return Object.assign(schema, { '~run': brief });
}
const LONG = 4096;

/** A text that is not empty. */
export const words = v.pipe(text, v.nonEmpty('must not be empty.'));

/** An object with these fields and no others: an unknown field is most often a typing mistake. */
export function object<const E extends v.ObjectEntries>(entries: E) {
  return strictFields(entries, 'field');
}

/** The parameters of a query. */
export function query<const E extends v.ObjectEntries>(entries: E) {
  return strictFields(entries, 'parameter');
}

function strictFields<const E extends v.ObjectEntries>(entries: E, noun: string) {
  const schema = v.strictObject(entries, (issue) => {
    const names = Object.keys(entries).join(', ');
    if (issue.expected === 'never')
      return `is not a ${noun} here; there are ${names === '' ? 'none' : names}.`;
    return issue.path === undefined ? 'A JSON object is expected.' : 'is missing.';
  });
  const run = schema['~run'];
  const lenient: typeof run = (dataset, config: Configuration) =>
    run.call(
      schema,
      config.leniency === undefined
        ? dataset
        : { ...dataset, value: keepKnownFields(dataset.value, entries, config.leniency) },
      config,
    );
  return Object.assign(schema, { '~run': lenient });
}

type Configuration = v.Config<v.BaseIssue<unknown>> & { leniency?: Leniency };

/** What a check accepts beyond its schema. It travels with the configuration of valibot. */
export interface Leniency {
  /** The fields of each object that its schema does not have. They are left out. */
  ignored: Map<object, readonly string[]>;
  /** An empty text counts as not given. So does null. */
  blanks: boolean;
}

/**
 * A list of items that have a `type`. Where unknown fields are left out, so are the items of the
 * types that `isForeign` names: `tools.2.web_search`.
 */
export function listWithout<S extends v.GenericSchema>(
  isForeign: (type: string) => boolean,
  item: S,
  message: string,
) {
  const schema = v.array(item, message);
  const run = schema['~run'];
  const lenient: typeof run = (dataset, config: Configuration) => {
    const { value } = dataset;
    if (config.leniency === undefined || !Array.isArray(value))
      return run.call(schema, dataset, config);
    const foreign = value.map((each) => {
      const type = typeof each === 'object' && each !== null ? each.type : undefined;
      return typeof type === 'string' && isForeign(type) ? type : null;
    });
    const names = foreign.flatMap((type, index) => (type === null ? [] : [`${index}.${type}`]));
    if (names.length > 0) config.leniency.ignored.set(value, names);
    const kept = value.filter((_, index) => foreign[index] === null);
    return run.call(schema, { ...dataset, value: names.length > 0 ? kept : value }, config);
  };
  return Object.assign(schema, { '~run': lenient });
}

/** The fields that the schema has. It is a copy only if there are others. */
function keepKnownFields(
  value: unknown,
  entries: v.ObjectEntries,
  { ignored, blanks }: Leniency,
): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const fields = Object.entries(value);
  const isKnown = ([key]: [string, unknown]) =>
    Object.hasOwn(entries, key) && entries[key] !== undefined;
  const isGiven = ([, field]: [string, unknown]) => !blanks || (field !== '' && field !== null);
  const knownFields = fields.filter((field) => isKnown(field) && isGiven(field));
  // Another form may have been tried before, which did not know them.
  ignored.delete(value);
  if (knownFields.length === fields.length) return value;
  ignored.set(
    value,
    fields.flatMap((field) => (isKnown(field) ? [] : [field[0]])),
  );
  return Object.fromEntries(knownFields);
}

/** An integer in decimal digits, as queries carry it. */
export function digits(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}.`;
  return v.pipe(
    v.string(),
    v.regex(/^\d{1,16}$/, message),
    v.transform(Number),
    v.number(message),
    v.integer(message),
    v.minValue(min, message),
    v.maxValue(max, message),
  );
}

/** A position of the log. The log says whether it exists. */
export const position = digits(1, Number.MAX_SAFE_INTEGER);
export const positionOrZero = digits(0, Number.MAX_SAFE_INTEGER);

/** A switch of a query. */
export const truth = v.pipe(
  oneOf(['0', '1', 'false', 'true']),
  v.transform((word) => word === '1' || word === 'true'),
  v.boolean(),
);

/** The named fields of an object. */
export function pick<T extends object, const K extends keyof T>(fields: T, names: readonly K[]) {
  return Object.fromEntries(names.map((name) => [name, fields[name]])) as Pick<T, K>;
}
