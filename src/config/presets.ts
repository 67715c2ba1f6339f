import { type PresetNumberName, presetNumbers, STOPS_MAX } from '../contract/options.ts';
import { readAdapters, readName, readWhole } from './value.ts';

/**
 * Named requests: `svc run --preset <name>`. The fields are those of a run. `template` is the text
 * that the prompt is put into.
 */
export type Preset = Partial<Record<PresetNumberName, number>> & {
  system?: string;
  template?: string;
  provider?: string;
  model?: string | readonly string[];
  cloud?: boolean;
  stop?: readonly string[];
  regex?: string;
  choice?: readonly string[];
  grammar?: string;
  tool_servers?: readonly string[];
  response_format?: { type: 'json'; schema?: Record<string, unknown> };
};
export type Presets = Readonly<Record<string, Preset>>;

/** The options of a created model, and its replacements for values of its file. */
export type ModelPreset = Omit<Preset, 'template'> & {
  /** Turns before those of a request, as an example. */
  messages?: readonly ExampleTurn[];
  /** A Jinja template, or a form of svc. */
  chat_template?: string;
  /** Paths of LoRA adapters. */
  adapters?: readonly string[];
  licence?: string;
};
export type ModelPresets = Readonly<Record<string, ModelPreset>>;

export interface ExampleTurn {
  role: (typeof EXAMPLE_ROLES)[number];
  text: string;
}
export const EXAMPLE_ROLES = ['system', 'user', 'assistant'] as const;
/** Of one model: each request has all of them. */
export const EXAMPLES_MAX = 256;

/** Whether the model is loaded in another way than its base model. */
export function hasOwnLoad({ chat_template, adapters }: ModelPreset = {}): boolean {
  return chat_template !== undefined || adapters !== undefined;
}

/** The part of a preset that a request gets. */
export function requestPart({
  chat_template: _,
  adapters: __,
  licence: ___,
  ...rest
}: ModelPreset = {}) {
  return rest;
}

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
  regex: text,
  choice: { expects: 'a list of texts', is: (value) => isTexts(value, text.is) },
  grammar: text,
  tool_servers: {
    expects: 'a list of tool servers, or of server/tool',
    is: (value) => isTexts(value, isName),
  },
  response_format: {
    expects: 'an object such as {"type": "json", "schema": {"type": "object"}}',
    is: isFormat,
  },
  ...numbers(),
};

const { template: _, ...shared } = fields;
const modelFields: Readonly<Record<keyof ModelPreset, Field>> = {
  ...shared,
  messages: {
    expects: `a list of 1 to ${EXAMPLES_MAX} turns with a role and a text`,
    is: (value) => isTexts(value, isTurn) && (value as unknown[]).length <= EXAMPLES_MAX,
  },
  chat_template: text,
  adapters: {
    expects: 'a list of 1 to 16 absolute paths',
    is: (value) => isTexts(value, text.is) && readAdapters({ it: value }) !== undefined,
  },
  licence: text,
};

/** Whether a preset may have it. Not all fields of a request can be set before it. */
export function isPresetField(name: string): boolean {
  return Object.hasOwn(fields, name);
}

/** The presets of a configuration. Undefined: `presetProblem` has the mistake. */
export function readPresets(value: unknown): Presets | undefined {
  return presetProblem(value) === null ? structuredClone(value as Presets) : undefined;
}

/** The presets of created models. Undefined: `modelPresetProblem` has the mistake. */
export function readModelPresets(value: unknown): ModelPresets | undefined {
  return modelPresetProblem(value) === null ? structuredClone(value as ModelPresets) : undefined;
}

/** The mistake in presets, as the rest of a sentence about them. Null: they are right. */
export function presetProblem(value: unknown): string | null {
  return problemIn(value, fields);
}

export function modelPresetProblem(value: unknown): string | null {
  return problemIn(value, modelFields);
}

function problemIn(value: unknown, fields: Readonly<Record<string, Field>>): string | null {
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
      const { expects, is } = fields[field] as Field;
      if (!is(setting)) return `${at}: ${field} must be ${expects}`;
    }
  }
  return null;
}

function numbers(): Record<PresetNumberName, Field> {
  return Object.fromEntries(
    Object.entries(presetNumbers).map(([name, { whole, min, max }]) => [
      name,
      {
        expects: `a ${whole ? 'whole ' : ''}number from ${min} to ${max}`,
        is: (value: unknown) =>
          whole
            ? readWhole(value, min, max) !== undefined
            : typeof value === 'number' && value >= min && value <= max,
      },
    ]),
  ) as Record<PresetNumberName, Field>;
}

function isTurn(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { role, text: said, ...rest } = value;
  return EXAMPLE_ROLES.includes(role as never) && text.is(said) && Object.keys(rest).length === 0;
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
