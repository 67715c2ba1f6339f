import { Ajv2020 } from 'ajv/dist/2020.js';

/** What is asked about one call. Both are JSON. */
export interface Judging {
  written: string;
  schema: string;
  /** Bound of the answer. */
  characters: number;
}

/**
 * What is wrong with the arguments that a model wrote, in words for the model; null if nothing is.
 *
 * The schema comes from a server of tools, and may need any time and memory. So the daemon has this
 * done in another process: see `judge.ts`. Its patterns are left to that server.
 */
export function problemOfArguments({ written, schema, characters }: Judging): string | null {
  let value: unknown;
  try {
    value = JSON.parse(written === '' ? '{}' : written);
  } catch {
    return 'The arguments are no JSON.';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'The arguments are no JSON object.';
  try {
    const { $schema: _, $id: __, ...rest } = JSON.parse(schema);
    const isValid = ajv.compile(rest);
    if (isValid(value)) return null;
    // There may be thousands, and one may repeat what the schema has.
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
