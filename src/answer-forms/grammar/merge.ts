import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../../json.ts';

export type Schema = Readonly<Record<string, unknown>>;
type Merge = (one: unknown, other: unknown) => unknown;

const larger: Merge = (one, other) => Math.max(Number(one), Number(other));
const smaller: Merge = (one, other) => Math.min(Number(one), Number(other));

/** What both schemas together say, for each word that may differ. Without a row: nothing does. */
const BOTH: Readonly<Record<string, Merge>> = {
  minimum: larger,
  exclusiveMinimum: larger,
  minLength: larger,
  minItems: larger,
  maximum: smaller,
  exclusiveMaximum: smaller,
  maxLength: smaller,
  maxItems: smaller,
  type: (one, other) => {
    const [some, others] = [one, other].map((types) => [types].flat());
    const both = some?.filter((type) => others?.includes(type)) ?? [];
    const isWhole = [some, others].every((types) =>
      types?.some((type) => NUMBERS.includes(type as string)),
    );
    return isWhole && !both.includes('number') && !both.includes('integer')
      ? [...both, 'integer']
      : both;
  },
  required: (one, other) => [...new Set([one, other].flat())],
  allOf: (one, other) => [one, other].flat(),
  enum: (one, other) =>
    [one].flat().filter((value) => [other].flat().some((each) => isDeepStrictEqual(each, value))),
};
const NUMBERS = ['number', 'integer'];

export const STRING_WORDS = ['minLength', 'maxLength', 'pattern'];
export const NUMBER_WORDS = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
];
export const ARRAY_WORDS = [
  'items',
  'prefixItems',
  'additionalItems',
  'minItems',
  'maxItems',
  'uniqueItems',
  'contains',
  'unevaluatedItems',
];
export const OBJECT_WORDS = [
  'properties',
  'required',
  'additionalProperties',
  'patternProperties',
  'propertyNames',
  'minProperties',
  'maxProperties',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
  'unevaluatedProperties',
];
const VALUE_WORDS = ['type', 'const', 'enum', '$ref', '$dynamicRef', '$recursiveRef'];
const SCHEMA_WORDS = ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'];

/**
 * The words that say which values are valid. Any other word is a note, as JSON schema has it, or
 * the OpenAPI documents that exporters take their words from.
 */
export const ASSERTIONS: ReadonlySet<string> = new Set([
  ...VALUE_WORDS,
  ...SCHEMA_WORDS,
  ...STRING_WORDS,
  ...NUMBER_WORDS,
  ...ARRAY_WORDS,
  ...OBJECT_WORDS,
]);

/** Whether no word of a schema says which values are valid. */
export function isNote(schema: Schema): boolean {
  return Object.keys(schema).every((word) => !ASSERTIONS.has(word) || schema[word] === undefined);
}

/**
 * One schema for the values that all of them allow. False: there are none. Where two values of a
 * keyword cannot be combined, the first one stays, and `onLost` gets the keyword.
 */
export function mergeSchemas(
  schemas: readonly unknown[],
  onLost: (word: string) => void = () => {},
): Schema | boolean {
  let merged: Schema = {};
  for (const schema of schemas) {
    if (schema === false) return false;
    if (!isRecord(schema) || Array.isArray(schema)) continue;
    const next = mergeTwo(merged, schema, onLost);
    if (next === false) return next;
    merged = next;
  }
  return merged;
}

function mergeTwo(one: Schema, other: Schema, onLost: (word: string) => void): Schema | false {
  const merged: Record<string, unknown> = { ...other, ...one, ...mergeItems(one, other, onLost) };
  for (const key of Object.keys(other)) {
    if (MERGED_TOGETHER.has(key) || !ASSERTIONS.has(key)) continue;
    if (!Object.hasOwn(one, key) || isDeepStrictEqual(one[key], other[key])) continue;
    const merge = BOTH[key];
    if (merge === undefined) onLost(key);
    else merged[key] = merge(one[key], other[key]);
  }
  if (Array.isArray(merged.type) && merged.type.length === 0) return false;
  return { ...merged, ...mergeProperties(one, other) };
}

const ITEMS = ['items', 'prefixItems', 'additionalItems'];
const MERGED_TOGETHER: ReadonlySet<string> = new Set([
  ...ITEMS,
  'properties',
  'additionalProperties',
]);

/** What `items` is about depends on the `prefixItems` beside it. */
function mergeItems(one: Schema, other: Schema, onLost: (word: string) => void): Schema {
  const [some, others] = [one, other].map((schema) =>
    Object.fromEntries(ITEMS.flatMap((word) => (word in schema ? [[word, schema[word]]] : []))),
  ) as [Schema, Schema];
  if (Object.keys(some).length === 0 || isDeepStrictEqual(some, others)) return others;
  if (Object.keys(others).length === 0) return some;
  const isAlike = [some, others].every((schema) => Object.keys(schema).join() === 'items');
  if (isAlike && ![some.items, others.items].some(Array.isArray))
    return { items: both(some.items, others.items) };
  onLost('items');
  return { prefixItems: undefined, additionalItems: undefined, items: undefined, ...some };
}

/**
 * The rule of one schema for further properties also holds for those that only the other schema
 * has.
 */
function mergeProperties(one: Schema, other: Schema): Schema {
  const names = [one, other].flatMap(({ properties }) =>
    isRecord(properties) ? Object.keys(properties) : [],
  );
  const properties = Object.fromEntries(
    [...new Set(names)].map((name) => [name, both(schemaOf(one, name), schemaOf(other, name))]),
  );
  const further = [one, other].map((schema) => schema.additionalProperties);
  const isSaid = further.some((schema) => schema !== undefined);
  return {
    ...(names.length > 0 ? { properties } : {}),
    ...(isSaid ? { additionalProperties: both(further[0] ?? true, further[1] ?? true) } : {}),
  };
}

function schemaOf({ properties, additionalProperties }: Schema, name: string): unknown {
  const own = isRecord(properties) && Object.hasOwn(properties, name);
  return own ? properties[name] : (additionalProperties ?? true);
}

function both(one: unknown, other: unknown): unknown {
  if (one === false || other === false) return false;
  if (one === true) return other;
  return other === true || isDeepStrictEqual(one, other) ? one : { allOf: [one, other] };
}
