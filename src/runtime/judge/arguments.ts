import { Ajv2020 } from 'ajv/dist/2020.js';

/** The arguments and the schema of one call. Both are JSON. */
export interface Judging {
  written: string;
  schema: string;
  /** Bound of the answer. */
  characters: number;
}

/**
 * What is wrong with the arguments that a model wrote, in words for the model; null if nothing is.
 *
 * The schema comes from a tool server, and may need any time and memory, so another process does
 * this work: see `judge.ts`. The patterns in the schema are left to that server.
 */
export function problemOfArguments({ written, schema, characters }: Judging): string | null {
  let value: unknown;
  try {
    value = JSON.parse(written === '' ? '{}' : written);
  } catch {
    return 'The arguments are not JSON.';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'The arguments are not a JSON object.';
  try {
    const { $schema: _, $id: __, ...rest } = JSON.parse(schema);
    const isValid = ajv.compile(rest);
    if (isValid(value)) return null;
    // There may be thousands of problems, and each may repeat parts of the schema.
    const errors = isValid.errors?.slice(0, PROBLEMS_MAX);
    const problems = ajv.errorsText(errors, { dataVar: 'arguments' }).slice(0, characters);
    return `The arguments do not fit the schema: ${problems}.`;
  } catch {
    // A schema that cannot be used is judged by the server of the tool.
    return null;
  } finally {
    ajv.removeSchema();
  }
}

const PROBLEMS_MAX = 16;

const anyText = Object.assign(() => ({ test: () => true }), {
  code: '(() => ({ test: () => true }))',
});

const ajv = new Ajv2020({
  strict: false,
  validateFormats: false,
  logger: false,
  addUsedSchema: false,
  code: { regExp: anyText },
});
