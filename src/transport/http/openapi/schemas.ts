import { type ConversionConfig, toJsonSchema, toJsonSchemaDefs } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { instance, machines, runWhy, stateSnapshot } from '../../../runtime/contract/history.ts';
import { lifecycleInput, runInput, sessionInput } from '../../../runtime/contract/inputs.ts';
import {
  errorAnswer,
  errorBody,
  event,
  health,
  lifecycleResult,
  provider,
  publicReport,
  report,
  run,
  runPage,
} from '../../../runtime/contract/records.ts';
import { anything, object, text, time } from '../../../runtime/contract/vocabulary.ts';

/** The schemas of the contract as JSON Schema, by the names of the OpenAPI document. */
const components = {
  ErrorBody: errorBody,
  Error: errorAnswer,
  Health: health,
  Report: v.union([report, publicReport]),
  Position: lifecycleResult,
  Run: run,
  RunPage: runPage,
  Event: event,
  Why: runWhy,
  Provider: provider,
  Providers: object({ providers: v.array(provider) }),
  Models: object({ object: text, data: v.array(anything) }),
  Instance: instance,
  Machines: machines,
  StateSnapshot: stateSnapshot,
  RunInput: runInput,
  LifecycleInput: lifecycleInput,
  SessionInput: sessionInput,
  Session: object({ id: text, key: text, expires_at: time }),
  Proof: object({ proof: text }),
};

export type Schema = Readonly<Record<string, unknown>>;

/** Checks that JSON Schema cannot express, such as control characters, are left out. */
const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  typeMode: 'output',
  errorMode: 'ignore',
  overrideRef: ({ referenceId }) => `#/components/schemas/${referenceId}`,
};

export const schemas = toJsonSchemaDefs(components, CONVERSION);

export const ref = (name: keyof typeof components): Schema => ({
  $ref: `#/components/schemas/${name}`,
});

export function schemaOf(schema: v.GenericSchema): Schema {
  const { $schema: _, ...rest } = toJsonSchema(schema, CONVERSION);
  return rest;
}
