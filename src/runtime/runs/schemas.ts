import type { AnySchema } from 'ajv';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput } from '../../contract/run.ts';
import { parseGbnf } from '../../forms/gbnf.ts';
import { plainSchema } from '../../forms/plain-schema.ts';

/**
 * Whether the schemas of a request are JSON schemas. A model that gets a wrong one answers with
 * anything, and the client would find no cause.
 *
 * Only the meta-schema of JSON Schema is compiled, and the schemas of clients are validated against
 * it as data. The contract has bounded their size and depth before.
 */

/** Throws invalid_request. Resolves at once for a request without schemas. */
export async function checkSchemas({
  tools,
  response_format,
  regex,
  grammar,
}: Pick<RunInput, 'tools' | 'response_format' | 'regex' | 'grammar'>): Promise<void> {
  if (regex != null) checkNotation('regex', () => new RegExp(regex, 'u'));
  if (grammar != null) checkNotation('grammar', () => parseGbnf(grammar));
  for (const [index, { name, parameters }] of (tools ?? []).entries())
    await checkSchema(parameters, `tools.${index}.parameters`, `the schema of ${name}`);
  const schema = response_format?.schema ?? null;
  if (schema !== null)
    await checkSchema(schema, 'response_format.schema', 'the schema of response_format');
}

function checkNotation(param: 'regex' | 'grammar', read: () => unknown): void {
  try {
    read();
  } catch (thrown) {
    throw invalidRequest(
      param,
      `${param} cannot be read. ${(thrown as Error).message.slice(-1000)}`,
    );
  }
}

async function checkSchema(
  { $schema, ...schema }: Readonly<Record<string, unknown>>,
  param: string,
  what: string,
): Promise<void> {
  if (Object.keys(schema).length === 0) return;
  const plain = plainSchema(schema) as AnySchema;
  const problem = await problemOf(plain, typeof $schema === 'string' && OLDER.test($schema));
  if (problem !== null)
    throw invalidRequest(param, `${param}: ${what} is not a JSON schema. ${problem}`);
}

/** Many libraries still write the previous draft, which has another form of tuples. */
const OLDER = /\/draft-0[4-7]\//;

async function problemOf(schema: AnySchema, isOlder: boolean): Promise<string | null> {
  const ajv = await (isOlder ? loaded.older() : loaded.present());
  if (ajv.validateSchema(schema) === true) return null;
  const { instancePath = '', message = 'It is malformed.' } = ajv.errors?.[0] ?? {};
  // The path has names of the schema, which may be long.
  return `${instancePath === '' ? 'It' : instancePath.slice(0, PATH_CHARS_MAX)} ${message}.`;
}

const OPTIONS = { strict: false, validateFormats: false, logger: false } as const;

/** Each is loaded once, when a request first needs it. */
const loaded = {
  present: once(async () => new (await import('ajv/dist/2020.js')).Ajv2020(OPTIONS)),
  older: once(async () => {
    const { Ajv } = await import('ajv');
    const meta = structuredClone(new Ajv(OPTIONS).schemas[DRAFT_7]?.schema) as OlderMeta;
    // Each value of an enum would be compared with each other one: 20 s for 20,000 of them.
    delete meta.properties.enum.uniqueItems;
    return new Ajv({ ...OPTIONS, meta: { ...meta, $id: 'svc:draft-07' } });
  }),
};

const DRAFT_7 = 'http://json-schema.org/draft-07/schema';
interface OlderMeta {
  [keyword: string]: unknown;
  properties: { enum: { uniqueItems?: boolean } };
}
const PATH_CHARS_MAX = 500;

/** A value that is made when it is first needed. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make();
    return made;
  };
}
