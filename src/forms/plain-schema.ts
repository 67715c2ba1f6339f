import { isRecord } from '../json.ts';

/**
 * A schema in the words of JSON schema alone. Exporters also write those of OpenAPI 3.0, and of
 * older drafts: `nullable`, `exclusiveMinimum: true`, `id`. The contract has bounded its depth.
 */
export function plainSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plainSchema);
  if (!isRecord(schema)) return schema;
  const { nullable, id: _, $async: __, ...words } = schema;
  const made = Object.fromEntries(
    Object.entries(words).map(([word, value]) => [word, partOf(word, value)]),
  );
  for (const [bound, exclusive] of BOUNDS) {
    if (typeof made[exclusive] !== 'boolean') continue;
    if (made[exclusive] && made[bound] !== undefined) {
      made[exclusive] = made[bound];
      delete made[bound];
    } else delete made[exclusive];
  }
  if (nullable !== true) return made;
  // Not each exporter adds null to the values.
  if (made.type === undefined || made.enum !== undefined)
    return { anyOf: [{ type: 'null' }, made] };
  return { ...made, type: [...new Set([made.type, 'null'].flat())] };
}

function partOf(word: string, value: unknown): unknown {
  if (VALUES.has(word)) return value;
  if (!NAMED.has(word) || !isRecord(value) || Array.isArray(value)) return plainSchema(value);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plainSchema(each)]));
}

const BOUNDS = [
  ['minimum', 'exclusiveMinimum'],
  ['maximum', 'exclusiveMaximum'],
] as const;
/** Keywords whose values are schemas by name, and keywords whose values are not schemas. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
]);
const VALUES: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples', 'example']);
