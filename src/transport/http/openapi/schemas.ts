import { type ConversionConfig, toJsonSchema, toJsonSchemaDefs } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { listed, names } from '../../../contract/vocabulary.ts';

/** Schemas of the contract as JSON Schema. Those with a name are components of the document. */

export type Schema = Readonly<Record<string, unknown>>;

/** The form that clients send differs from the parsed one: a short form is read as the long one. */
export type Mode = 'input' | 'output';

/** Checks that JSON Schema cannot express, such as control characters, are left out. */
const conversion = (typeMode: Mode): ConversionConfig => ({
  target: 'draft-2020-12',
  typeMode,
  errorMode: 'ignore',
  overrideSchema: ({ valibotSchema }) => {
    const values = listed.get(valibotSchema as v.GenericSchema);
    return values === undefined ? undefined : { enum: [...values] as never };
  },
  overrideRef: ({ referenceId }) => `${COMPONENT}${referenceId}`,
});

const COMPONENT = '#/components/schemas/';

/**
 * The schemas of one document. The converter looks at all components for each call, so they are
 * converted together. It owns the objects that wait for that.
 */
export class Schemas {
  private readonly waiting = {
    input: new Map<v.GenericSchema, object>(),
    output: new Map<v.GenericSchema, object>(),
  };

  /** An object that `convert` fills. */
  schemaOf(schema: v.GenericSchema, mode: Mode): Schema {
    const known = this.waiting[mode].get(schema) ?? {};
    this.waiting[mode].set(schema, known);
    return known as Schema;
  }

  /** Fills the objects. */
  convert(): void {
    for (const mode of ['input', 'output'] as const) {
      const waiting = this.waiting[mode];
      const { prefixItems = [] } = toJsonSchema(v.tuple([...waiting.keys()]), {
        ...conversion(mode),
        definitions: Object.fromEntries(names),
      });
      for (const [index, object] of [...waiting.values()].entries())
        Object.assign(object, prefixItems[index]);
      waiting.clear();
    }
  }
}

/** Bodies of requests. The routes of `lenient` ones leave unknown fields out. */
interface Bodies {
  exact: readonly Schema[];
  lenient: readonly Schema[];
}

/**
 * The components. Those that bodies reach have the form that clients send. Components that only
 * lenient bodies reach may have more fields.
 */
export function components({ exact, lenient }: Bodies): Schema {
  const all = Object.fromEntries(names);
  const inputs: Record<string, unknown> = toJsonSchemaDefs(all, conversion('input'));
  const reached = new Set<string>();
  const reach = (schema: unknown) => {
    for (const [, name = ''] of JSON.stringify(schema).matchAll(REFERENCE))
      if (!reached.has(name)) {
        reached.add(name);
        reach(inputs[name]);
      }
  };
  reach(exact);
  const strict = new Set(reached);
  reach(lenient);
  const formOf = (name: string) => (strict.has(name) ? inputs[name] : open(inputs[name]));
  for (const body of lenient) {
    const opened = open(body) as Schema;
    if (!('additionalProperties' in opened)) Reflect.deleteProperty(body, 'additionalProperties');
    Object.assign(body, opened);
  }
  return {
    ...toJsonSchemaDefs(all, conversion('output')),
    ...Object.fromEntries([...reached].map((name) => [name, formOf(name)])),
  };
}

/** The schema with room for more fields. */
function open(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(open);
  const entries = Object.entries(schema).filter(
    ([name, value]) => !(name === 'additionalProperties' && value === false),
  );
  return Object.fromEntries(entries.map(([name, value]) => [name, open(value)]));
}

const REFERENCE = /"#\/components\/schemas\/(\w+)"/g;
