import { once } from '../runs/schemas.ts';

/**
 * What is wrong with the arguments that a model wrote, in words for the model; null if nothing is.
 *
 * The schema comes from a server of tools. Its patterns are left to that server: a pattern may take
 * any time here.
 */
export async function problemOfArguments(
  written: string,
  schema: Readonly<Record<string, unknown>>,
): Promise<string | null> {
  let value: unknown;
  try {
    value = JSON.parse(written === '' ? '{}' : written);
  } catch {
    return 'The arguments are no JSON.';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'The arguments are no JSON object.';
  const ajv = await validator();
  try {
    const { $schema: _, $id: __, ...rest } = schema;
    const isValid = ajv.compile(rest);
    if (isValid(value)) return null;
    const problems = ajv.errorsText(isValid.errors, { dataVar: 'arguments' });
    return `The arguments do not fit the schema: ${problems}.`;
  } catch {
    // A schema that cannot be used is judged by the server of the tool.
    return null;
  } finally {
    ajv.removeSchema();
  }
}

const anyText = Object.assign(() => ({ test: () => true }), {
  code: '(() => ({ test: () => true }))',
});
const OPTIONS = {
  strict: false,
  validateFormats: false,
  logger: false,
  addUsedSchema: false,
  code: { regExp: anyText },
} as const;

const validator = once(async () => new (await import('ajv/dist/2020.js')).Ajv2020(OPTIONS));
