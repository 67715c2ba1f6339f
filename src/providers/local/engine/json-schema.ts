import { randomUUID } from 'node:crypto';
import type { GbnfJsonSchema } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import { isRecord } from '../../../json.ts';
import { BRANCHES_MAX, branchesOf } from './branches.ts';
import { type Choice, choiceOf } from './choice.ts';

/**
 * Converts a JSON schema to the part of JSON schema that becomes a grammar. What a grammar cannot
 * say is refused, or left out if the schema only guides the model.
 */
export type Strictness = 'refuse' | 'leave_out';

type Schema = Readonly<Record<string, unknown>>;
/** Types of the library that only name what it knows. */
type Made = Readonly<Record<string, unknown>>;

/** Parts of one schema, and how deep they may be: a grammar is parsed recursively. */
const PARTS_MAX = 2000;
const DEPTH_MAX = 32;
/** Longest bounded list or text: the grammar repeats its rule so often. */
const REPEATED_MAX = 1000;
/** The same for all lists and texts of different bounds together. */
const REPEATED_SUM_MAX = 32_768;
const GRAMMAR_MAX = 65_536;
/** Letters of names of properties and fixed values. */
const LETTERS_MAX = 32_768;

/** They say nothing about which values are valid. */
const NOTES: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'format',
]);
const SIMPLE = ['string', 'number', 'integer', 'boolean', 'null'];
const FORMATS = ['date', 'time', 'date-time'];
const KEYS_OF: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'additionalProperties'],
};

const OBJECT: Made = { type: 'object', additionalProperties: true };
const ANY: Made = {
  oneOf: [{ type: ['string', 'number', 'boolean', 'null'] }, { type: 'array' }, OBJECT],
};

/** Makes the grammar of a converted schema. */
type Write = (schema: GbnfJsonSchema) => string;

/**
 * The grammar of a schema. Throws capability_missing, which names the part that no grammar can say,
 * or that makes it too large. A schema that only guides the model is then left out as a whole.
 */
export function schemaGrammar(schema: unknown, strictness: Strictness, write: Write): string {
  const conversion = new Conversion(strictness, definitionsOf(schema));
  try {
    const grammar = conversion.grammar(schema, write);
    if (grammar.length > GRAMMAR_MAX)
      throw refused(`a schema whose grammar has more than ${GRAMMAR_MAX} letters`, 'the schema');
    return grammar;
  } catch (thrown) {
    if (strictness === 'refuse' || !(thrown instanceof SvcError)) throw thrown;
    return write(OBJECT as GbnfJsonSchema);
  }
}

class Conversion {
  private readonly definitions: Schema;
  private readonly strictness: Strictness;
  private readonly made: Record<string, Made> = {};
  /** By the fixed value in its place in the converted schema. */
  private readonly choices = new Map<string, Choice>();
  private readonly lengths = new Set<string>();
  private parts = 0;
  private letters = 0;
  private repeated = 0;

  constructor(strictness: Strictness, definitions: Schema) {
    this.strictness = strictness;
    this.definitions = definitions;
  }

  grammar(schema: unknown, write: Write): string {
    const root = this.convert(schema, 'the schema', 0);
    for (const [name, each] of Object.entries(this.definitions))
      this.made[name] = this.convert(each, `$defs.${name}`, 0);
    if (branchesOf(root, this.made, this.choices) > BRANCHES_MAX)
      throw refused('so many values and forms that begin alike', 'the schema');
    const hasDefinitions = Object.keys(this.made).length > 0;
    const made = hasDefinitions ? { ...root, $defs: this.made } : root;
    return [...this.choices].reduce(
      (whole, [place, { rule, rules }]) =>
        [whole.replaceAll(`"\\"${place}\\""`, () => rule), ...rules].join('\n'),
      write(made as GbnfJsonSchema),
    );
  }

  private convert(schema: unknown, at: string, depth: number): Made {
    this.parts += 1;
    if (this.parts > PARTS_MAX || depth > DEPTH_MAX)
      throw refused(`a schema with more than ${PARTS_MAX} parts, or deeper than ${DEPTH_MAX}`, at);
    if (schema === true) return ANY;
    if (!isRecord(schema)) return this.unsaid(`the value ${JSON.stringify(schema)}`, at);
    if (schema.$ref !== undefined) return this.reference(schema, at);
    if (schema.const !== undefined || schema.enum !== undefined) return this.values(schema, at);
    for (const key of ['anyOf', 'oneOf', 'allOf'])
      if (schema[key] !== undefined) return this.several(schema, key, at, depth);
    const types = typesOf(schema);
    if (types.length === 0) {
      this.check(schema, [], at);
      return ANY;
    }
    const made = types.map((type) => this.ofType(type, schema, types, at, depth));
    return made.length === 1 ? (made[0] as Made) : { oneOf: made };
  }

  private ofType(
    type: string,
    schema: Schema,
    types: readonly string[],
    at: string,
    depth: number,
  ): Made {
    this.check(schema, ['type', ...types.flatMap((each) => KEYS_OF[each] ?? [])], at);
    if (type === 'object') return this.object(schema, at, depth);
    if (type === 'array') return this.array(schema, at, depth);
    if (!SIMPLE.includes(type)) return this.unsaid(`the type ${JSON.stringify(type)}`, at);
    if (type !== 'string') return { type };
    return FORMATS.includes(schema.format as string)
      ? { type, format: schema.format }
      : { type, ...this.counts(schema, ['minLength', 'maxLength'], at) };
  }

  private object(schema: Schema, at: string, depth: number): Made {
    const given = isRecord(schema.properties) ? schema.properties : {};
    const properties = Object.entries(given).map(([name, each]) => {
      this.spell(name, at);
      return [name, this.convert(each, `${at}.properties.${name}`, depth + 1)];
    });
    for (const name of Array.isArray(schema.required) ? schema.required : [])
      if (!Object.hasOwn(given, name))
        this.unsaid(`a required property ${JSON.stringify(name)} without a schema`, at);
    const others = schema.additionalProperties ?? properties.length === 0;
    return {
      type: 'object',
      properties: Object.fromEntries(properties),
      additionalProperties:
        typeof others === 'boolean'
          ? others
          : this.convert(others, `${at}.additionalProperties`, depth + 1),
    };
  }

  private array(schema: Schema, at: string, depth: number): Made {
    const { items } = schema;
    const first = Array.isArray(items) ? items : schema.prefixItems;
    const others = Array.isArray(items) ? undefined : items;
    return {
      type: 'array',
      ...(others === undefined || others === false
        ? {}
        : { items: this.convert(others, `${at}.items`, depth + 1) }),
      ...(Array.isArray(first)
        ? {
            prefixItems: first.map((each, index) =>
              this.convert(each, `${at}.prefixItems.${index}`, depth + 1),
            ),
          }
        : {}),
      ...this.counts(schema, ['minItems', 'maxItems'], at),
    };
  }

  private several(schema: Schema, key: string, at: string, depth: number): Made {
    const all = Array.isArray(schema[key]) ? schema[key] : [];
    this.check(schema, [key, 'type'], at);
    if (all.length === 0 || (key === 'allOf' && all.length > 1)) return this.unsaid(key, at);
    const made = all.map((each, index) => this.convert(each, `${at}.${key}.${index}`, depth + 1));
    return made.length === 1 ? (made[0] as Made) : { oneOf: made };
  }

  private reference(schema: Schema, at: string): Made {
    const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(String(schema.$ref))?.[1];
    this.check(schema, ['$ref'], at);
    return name !== undefined && Object.hasOwn(this.definitions, name)
      ? { $ref: `#/$defs/${name}` }
      : this.unsaid(`the reference ${JSON.stringify(schema.$ref)}`, at);
  }

  private values(schema: Schema, at: string): Made {
    this.check(schema, ['const', 'enum', 'type'], at);
    const all: readonly unknown[] =
      schema.const !== undefined ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : [];
    this.parts += all.length;
    if (all.length === 0 || all.some((each) => typeof each === 'object' && each !== null))
      return this.unsaid('a list or an object as a fixed value', at);
    const texts = all.map((each) => JSON.stringify(each));
    for (const text of texts) this.spell(text, at);
    if (texts.length === 1) return { const: all[0] };
    const place = randomUUID();
    this.choices.set(place, choiceOf(`choice${this.choices.size}`, texts));
    return { const: place };
  }

  private spell(text: string, at: string): void {
    this.letters += text.length;
    if (this.letters > LETTERS_MAX)
      throw refused(`more than ${LETTERS_MAX} letters of fixed values and names`, at);
  }

  private counts(schema: Schema, keys: readonly string[], at: string): Made {
    const given = keys.filter((key) => schema[key] !== undefined);
    const wrong = given.find(
      (key) => !Number.isSafeInteger(schema[key]) || (schema[key] as number) > REPEATED_MAX,
    );
    if (wrong === undefined) {
      const bounds = Object.fromEntries(given.map((key) => [key, schema[key]]));
      const key = JSON.stringify(bounds);
      const isShared = bounds.maxItems === undefined && this.lengths.has(key);
      this.lengths.add(key);
      if (!isShared) this.repeated += Math.max(0, ...(Object.values(bounds) as number[]));
      if (this.repeated > REPEATED_SUM_MAX)
        throw refused(`lists and texts of more than ${REPEATED_SUM_MAX} items and letters`, at);
      return bounds;
    }
    this.unsaid(`${wrong} ${JSON.stringify(schema[wrong])}`, at);
    return {};
  }

  private check(schema: Schema, known: readonly string[], at: string): void {
    const other = Object.keys(schema).find((key) => !NOTES.has(key) && !known.includes(key));
    if (other !== undefined) this.unsaid(JSON.stringify(other), at);
  }

  private unsaid(what: string, at: string): Made {
    if (this.strictness === 'refuse') throw refused(what, at);
    return ANY;
  }
}

function typesOf(schema: Schema): readonly string[] {
  const { type, properties, items, prefixItems } = schema;
  if (Array.isArray(type)) return type.map(String);
  if (type !== undefined) return [String(type)];
  if (properties !== undefined || schema.additionalProperties !== undefined) return ['object'];
  return items !== undefined || prefixItems !== undefined ? ['array'] : [];
}

function definitionsOf(schema: unknown): Schema {
  if (!isRecord(schema)) return {};
  const { $defs, definitions } = schema;
  return { ...(isRecord(definitions) ? definitions : {}), ...(isRecord($defs) ? $defs : {}) };
}

function refused(what: string, at: string): SvcError {
  return new SvcError(
    'capability_missing',
    `The engine cannot enforce ${what} at ${at.slice(0, 200)}.`,
    { hint: 'Leave it out of the schema, or check the answer yourself.', param: 'response_format' },
  );
}
