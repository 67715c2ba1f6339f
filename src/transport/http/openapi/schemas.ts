import { type ConversionConfig, toJsonSchema, toJsonSchemaDefs } from '@valibot/to-json-schema';
import type * as v from 'valibot';
import { listed, names } from '../../../runtime/contract/vocabulary.ts';

/** Schemas of the contract as JSON Schema. Those with a name are components of the document. */

export type Schema = Readonly<Record<string, unknown>>;

/** What clients send differs from what is made of it: a short form is read as the long one. */
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

export function schemaOf(schema: v.GenericSchema, mode: Mode): Schema {
  const {
    $schema: _,
    $defs: __,
    ...rest
  } = toJsonSchema(schema, {
    ...conversion(mode),
    definitions: Object.fromEntries(names),
  });
  return rest;
}

/** The components. Those that `sent` reaches have the form that clients send. */
export function components(sent: readonly Schema[]): Schema {
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
  reach(sent);
  return {
    ...toJsonSchemaDefs(all, conversion('output')),
    ...Object.fromEntries([...reached].map((name) => [name, inputs[name]])),
  };
}

const REFERENCE = /"#\/components\/schemas\/(\w+)"/g;
