import { type NumberFieldName, numberFields, STOPS_MAX } from '../contract/options.ts';
import { readName, readWhole } from './value.ts';

/**
 * Named requests: `svc run --preset <name>`. The fields are those of a run. `template` is the text
 * that the prompt is put into.
 */
export type Preset = Partial<Record<NumberFieldName, number>> & {
  system?: string;
  template?: string;
  provider?: string;
  model?: string | readonly string[];
  cloud?: boolean;
  stop?: readonly string[];
  tool_servers?: readonly string[];
  response_format?: { type: 'json'; schema?: Record<string, unknown> };
};
export type Presets = Readonly<Record<string, Preset>>;

/** Where a template has the prompt. */
export const PROMPT_PLACE = '{prompt}';

interface Field {
  expects: string;
  is(value: unknown): boolean;
}

const text: Field = { expects: 'a text', is: (value) => typeof value === 'string' && value !== '' };
const isTexts = (value: unknown, is: (each: unknown) => boolean) =>
  Array.isArray(value) && value.length > 0 && value.every(is);
const isName = (value: unknown) => readName(value) !== undefined;

const fields: Readonly<Record<keyof Preset, Field>> = {
  system: text,
  template: {
    expects: `a text with ${PROMPT_PLACE}, where the prompt is put`,
    is: (value) => typeof value === 'string' && value.includes(PROMPT_PLACE),
  },
  provider: { expects: 'the name of a provider', is: isName },
  model: {
    expects: 'the name of a model, or a list of names',
    is: (value) => isName(value) || isTexts(value, isName),
  },
  cloud: { expects: 'true or false', is: (value) => typeof value === 'boolean' },
  stop: {
    expects: `a list of 1 to ${STOPS_MAX} texts`,
    is: (value) => isTexts(value, text.is) && (value as unknown[]).length <= STOPS_MAX,
  },
  tool_servers: {
    expects: 'a list of servers of tools, or of server/tool',
    is: (value) => isTexts(value, isName),
  },
  response_format: {
    expects: 'an object such as {"type": "json", "schema": {"type": "object"}}',
    is: isFormat,
  },
  ...numbers(),
};

/** Whether a preset may have it. Not all fields of a request can be set before it. */
export function isPresetField(name: string): boolean {
  return Object.hasOwn(fields, name);
}

/** The presets of a configuration. Undefined: `presetProblem` says what is wrong. */
export function readPresets(value: unknown): Presets | undefined {
  return presetProblem(value) === null ? structuredClone(value as Presets) : undefined;
}

/** What is wrong with presets, as the rest of a sentence about them. Null: nothing. */
export function presetProblem(value: unknown): string | null {
  if (!isObject(value)) return 'must be an object of presets by name';
  for (const [name, preset] of Object.entries(value)) {
    if (!isName(name)) return 'has a name that is empty or has control characters';
    const at = JSON.stringify(name);
    if (!isObject(preset)) return `${at} must be an object`;
    for (const [field, setting] of Object.entries(preset)) {
      if (!Object.hasOwn(fields, field))
        return (
          `${at} has no field ${JSON.stringify(field)}; there are ` +
          `${Object.keys(fields).join(', ')}`
        );
      const { expects, is } = fields[field as keyof Preset];
      if (!is(setting)) return `${at}: ${field} must be ${expects}`;
    }
  }
  return null;
}

function numbers(): Record<NumberFieldName, Field> {
  return Object.fromEntries(
    Object.entries(numberFields).map(([name, { whole, min, max }]) => [
      name,
      {
        expects: `a ${whole ? 'whole ' : ''}number from ${min} to ${max}`,
        is: (value: unknown) =>
          whole
            ? readWhole(value, min, max) !== undefined
            : typeof value === 'number' && value >= min && value <= max,
      },
    ]),
  ) as Record<NumberFieldName, Field>;
}

function isFormat(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { type, schema, ...rest } = value;
  const isSchema = schema === undefined || isObject(schema);
  return type === 'json' && isSchema && Object.keys(rest).length === 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
