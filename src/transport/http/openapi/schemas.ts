import { type ConversionConfig, toJsonSchema, toJsonSchemaDefs } from '@valibot/to-json-schema';
import type * as v from 'valibot';
import { names } from '../../../runtime/contract/vocabulary.ts';

/** Schemas of the contract as JSON Schema. Those with a name are components of the document. */

export type Schema = Readonly<Record<string, unknown>>;

/** Checks that JSON Schema cannot express, such as control characters, are left out. */
const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  typeMode: 'output',
  errorMode: 'ignore',
  overrideRef: ({ referenceId }) => `#/components/schemas/${referenceId}`,
};

export function components(): Schema {
  return toJsonSchemaDefs(Object.fromEntries(names), CONVERSION);
}

export function schemaOf(schema: v.GenericSchema): Schema {
  const {
    $schema: _,
    $defs: __,
    ...rest
  } = toJsonSchema(schema, {
    ...CONVERSION,
    definitions: Object.fromEntries(names),
  });
  return rest;
}
