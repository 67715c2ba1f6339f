import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../../../../json.ts';

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

/** Words that say nothing about values. Those of the first schema stay. */
export const NOTES: readonly string[] = [
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'definitions',
];
const isNote = (key: string) => NOTES.includes(key) || key.startsWith('$');

/**
 * One schema for the values that all of them allow. False: there are none. Null: no schema without
 * `allOf` says it.
 */
export function mergeSchemas(schemas: readonly unknown[]): Schema | boolean | null {
  let merged: Schema = {};
  for (const schema of schemas) {
    if (schema === true) continue;
    if (schema === false) return false;
    if (!isRecord(schema) || Array.isArray(schema)) return null;
    const next = mergeTwo(merged, schema);
    if (typeof next === 'boolean' || next === null) return next;
    merged = next;
  }
  return merged;
}

function mergeTwo(one: Schema, other: Schema): Schema | false | null {
  const merged: Record<string, unknown> = { ...other, ...one };
  for (const key of Object.keys(other)) {
    if (key === 'properties' || key === 'additionalProperties' || isNote(key)) continue;
    if (!Object.hasOwn(one, key) || isDeepStrictEqual(one[key], other[key])) continue;
    const merge = BOTH[key];
    if (merge === undefined) return null;
    merged[key] = merge(one[key], other[key]);
  }
  if (Array.isArray(merged.type) && merged.type.length === 0) return false;
  return { ...merged, ...mergeProperties(one, other) };
}

/** What one schema says of further properties also holds for those that only the other one has. */
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
