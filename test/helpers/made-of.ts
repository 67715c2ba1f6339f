import type * as v from 'valibot';

type Inner = v.GenericSchema & {
  entries?: Record<string, Inner>;
  options?: readonly unknown[];
  literal?: unknown;
};
const MAY_BE_ABSENT = new Set(['optional', 'exact_optional', 'nullish', 'undefinedable']);

/** The least value that a schema takes: nothing that may be absent, and null where it may be. */
export function madeOf<S extends v.GenericSchema>(schema: S): v.InferOutput<S> {
  return leastOf(schema) as v.InferOutput<S>;
}

function leastOf({ type, entries = {}, options = [], literal }: Inner): unknown {
  switch (type) {
    case 'string':
      return 'x';
    case 'number':
      return 0;
    case 'boolean':
      return false;
    case 'array':
      return [];
    case 'record':
      return {};
    case 'literal':
      return literal;
    case 'picklist':
      return options[0];
    case 'object':
    case 'strict_object':
      return Object.fromEntries(
        Object.entries(entries)
          .filter(([, field]) => !MAY_BE_ABSENT.has(field.type))
          .map(([name, field]) => [name, leastOf(field)]),
      );
    default:
      return null;
  }
}
