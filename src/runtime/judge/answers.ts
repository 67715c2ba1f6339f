import { Ajv, type Options } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parseGbnf } from '../../forms/gbnf.ts';
import { plainSchema } from '../../forms/plain-schema.ts';
import { Ways } from '../../forms/ways.ts';
import type { Judging } from './arguments.ts';

/**
 * Why an answer does not fit the schema that its client sent, in words for the client; null if it
 * fits. Formats are notes, as JSON schema has it. Patterns count, so this needs any time, and is
 * done in another process.
 */
export function problemOfAnswer({ written, schema, characters }: Judging): string | null {
  const { $schema, ...asked } = JSON.parse(schema);
  const isOlder = /\/draft-0[4-7]\//.test(String($schema));
  // Schemas name themselves, so each question has its own.
  const ajv = isOlder ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS);
  try {
    const isValid = ajv.compile(plainSchema(asked) as object);
    if (isValid(JSON.parse(written))) return null;
    return `${ajv.errorsText(isValid.errors, { dataVar: 'It' }).slice(0, characters)}.`;
  } catch (thrown) {
    const why = (thrown as Error).message.slice(0, characters);
    return `svc cannot compare it with the schema: ${why}.`;
  }
}

/**
 * In the Unicode syntax (flag `u`), else without it: many patterns have escapes that `u` refuses.
 */
const regExp = Object.assign(
  (pattern: string, flags: string) => {
    try {
      return new RegExp(pattern, flags);
    } catch {
      return new RegExp(pattern);
    }
  },
  { code: 'new RegExp' },
);

const OPTIONS: Options = {
  strict: false,
  // The schema was checked when the run was accepted.
  validateSchema: false,
  validateFormats: false,
  logger: false,
  ownProperties: true,
  // Floating-point numbers are no exact multiples of 0.01.
  multipleOfPrecision: 3,
  code: { regExp },
};

export type TextForm = 'regex' | 'choice' | 'grammar';

/** The same for the other forms. Each is the JSON of the field of the request. */
export const problemOfText: Readonly<Record<TextForm, (judging: Judging) => string | null>> = {
  regex: ({ written, schema }) =>
    new RegExp(`^(?:${JSON.parse(schema)})$`, 'u').test(written)
      ? null
      : 'The regular expression does not describe it.',
  choice: ({ written, schema }) =>
    (JSON.parse(schema) as string[]).includes(written) ? null : 'It is not one of the choices.',
  grammar: ({ written, schema }) => {
    const ways = new Ways(parseGbnf(JSON.parse(schema)), WAYS_MAX);
    for (const [at, letter] of Array.from(written).entries()) {
      ways.take(letter);
      if (ways.count === 0)
        return `The grammar has no ${JSON.stringify(letter)} at letter ${at + 1}.`;
    }
    return ways.mayEnd ? null : 'It ends before the grammar does.';
  },
};

const WAYS_MAX = 65_536;
