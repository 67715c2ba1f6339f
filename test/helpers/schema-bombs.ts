/**
 * Schemas of a few kilobytes that need any time or memory to judge, and arguments with which they
 * do. `{}`: arguments that a model may write by itself.
 */
export interface SchemaBomb {
  schema: Record<string, unknown>;
  arguments: string;
}

const LEVELS = 25;
const object = (a: unknown, more: object = {}) => ({ type: 'object', properties: { a }, ...more });

/** Each level has the next one twice, so the last one is reached 2^25 times. */
function tower(level: (next: object) => object, last: object = { type: 'string' }) {
  const $defs: Record<string, object> = { [`d${LEVELS}`]: last };
  for (let at = 0; at < LEVELS; at += 1) $defs[`d${at}`] = level({ $ref: `#/$defs/d${at + 1}` });
  return object({ $ref: '#/$defs/d0' }, { $defs });
}

const ONE = '{"a":1}';
const lists = JSON.stringify({ a: Array.from({ length: 20_000 }, (_, at) => [at, [at]]) });
const wide = (count: number, value: (at: number) => unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, value(at)]));

export const SCHEMA_BOMBS: Record<string, SchemaBomb> = {
  anyOf: { schema: tower((next) => ({ anyOf: [next, next] })), arguments: ONE },
  oneOf: { schema: tower((next) => ({ oneOf: [next, next] })), arguments: ONE },
  allOf: { schema: tower((next) => ({ allOf: [next, next] }), {}), arguments: ONE },
  if: { schema: tower((next) => ({ if: next, else: next })), arguments: ONE },
  not: { schema: tower((next) => ({ not: { allOf: [next, next] } }), {}), arguments: ONE },
  dependentSchemas: {
    schema: tower((next) => ({ dependentSchemas: { b: next, c: next } }), {}),
    arguments: '{"a":{"b":1,"c":2}}',
  },
  propertyNames: {
    schema: tower((next) => ({ propertyNames: { anyOf: [next, next] }, anyOf: [next, next] })),
    arguments: '{"a":{"b":1}}',
  },
  patternProperties: {
    schema: tower((next) => ({ patternProperties: { '(x+x+)+y': next, x: next } }), {}),
    arguments: `{"a":${'{"x":'.repeat(LEVELS)}1${'}'.repeat(LEVELS)}}`,
  },
  uniqueItems: { schema: object({ uniqueItems: true }), arguments: lists },
  contains: {
    schema: object({ contains: { uniqueItems: true, minItems: 1e9 }, uniqueItems: true }),
    arguments: lists,
  },
  unevaluatedProperties: {
    schema: tower((next) => ({ anyOf: [next, next], unevaluatedProperties: false })),
    arguments: '{"a":{"b":1}}',
  },
  unevaluatedItems: {
    schema: tower((next) => ({ anyOf: [next, next], unevaluatedItems: false })),
    arguments: '{"a":[1]}',
  },
  dynamicRef: {
    schema: {
      $dynamicAnchor: 'node',
      type: 'object',
      properties: { a: { anyOf: [{ $dynamicRef: '#node' }, { $dynamicRef: '#node' }] } },
      required: ['b'],
    },
    arguments: `${'{"a":'.repeat(40)}{}${'}'.repeat(40)}`,
  },
  endless: { schema: object({ $ref: '#/properties/a' }), arguments: ONE },
  enum: {
    schema: object({ items: { enum: Array.from({ length: 4000 }, (_, at) => [at]) } }),
    arguments: lists,
  },
  texts: {
    schema: object({ anyOf: Array.from({ length: 800 }, (_, at) => ({ required: [`r${at}`] })) }),
    arguments: `{"a":{}}`,
  },
  required: { schema: object(wide(900, () => ({ anyOf: [{ type: 'null' }] }))), arguments: ONE },
};
