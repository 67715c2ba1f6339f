import { SvcError } from '../../errors.ts';
import { plainSchema } from '../../forms/plain-schema.ts';
import { isRecord } from '../../json.ts';
import { areApart } from './apart.ts';
import { BRANCHES_MAX, branchesOf } from './branches.ts';
import { Choices } from './choice.ts';
import { FORMAT_RULES } from './format.ts';
import {
  ARRAY_WORDS,
  ASSERTIONS,
  isNote,
  mergeSchemas,
  NUMBER_WORDS,
  OBJECT_WORDS,
  type Schema,
  STRING_WORDS,
} from './merge.ts';
import { boundsOf, integerRule, LARGEST, numberRule, outerBounds, wholeBounds } from './number.ts';
import { patternRule } from './pattern.ts';
import { UnknownPattern } from './ranges.ts';
import { References } from './references.ts';
import { ANY, NEVER, type Property, type Shape } from './shape.ts';
import { tooMuch, writeGrammar } from './write.ts';

/**
 * What happens to a schema that is too large for a grammar, or has no value: it is refused, or left
 * out as a whole, because it only guides the model.
 */
export type Strictness = 'refuse' | 'leave_out';

/** Parts of one schema, and how deep they may be: a grammar is parsed recursively. */
const PARTS_MAX = 2000;
const DEPTH_MAX = 32;
/** Longest bounded list or text: the grammar repeats its rule so often. */
const REPEATED_MAX = 1000;
/** The same for all lists and texts of different bounds together. */
const REPEATED_SUM_MAX = 32_768;
/** Letters of names of properties and fixed values. */
const LETTERS_MAX = 32_768;

/** The words by which a schema without a type means one. */
const WORDS: readonly (readonly [type: string, words: readonly string[]])[] = [
  ['object', OBJECT_WORDS],
  ['array', ARRAY_WORDS],
  ['string', STRING_WORDS],
  ['number', NUMBER_WORDS],
];
/** Words that no grammar says, for the types that they are about. */
const UNSAID: Readonly<Record<string, readonly string[]>> = {
  any: ['not', 'if', '$dynamicRef', '$recursiveRef'],
  array: ['contains', 'unevaluatedItems'],
  object: ['dependentRequired', 'dependentSchemas', 'dependencies', 'unevaluatedProperties'],
};
const FREE_OBJECT: Shape = { kind: 'object', properties: [], others: ANY };

/** A grammar, and the parts of its schema that it does not say. */
export interface SchemaGrammar {
  text: string;
  /** Each in words with its place. Empty: each text of the grammar is valid. */
  unsaid: readonly string[];
}

/**
 * The grammar of the values that a schema allows, or of a part of these values. Keywords that no
 * grammar can express are left out and named: the answer is compared with the schema afterwards.
 * Throws capability_missing for a schema that makes it too large, or that has no value. A schema
 * that only guides the model is then left out as a whole.
 */
export function schemaGrammar(schema: unknown, strictness: Strictness): SchemaGrammar {
  try {
    const { root, named, unsaid } = new SchemaReader(plainSchema(schema)).read();
    const choices = new Choices();
    if (branchesOf(root, named, choices) > BRANCHES_MAX)
      throw tooMuch('so many values and forms that begin alike');
    return { text: writeGrammar(root, named, choices), unsaid };
  } catch (thrown) {
    if (strictness === 'refuse' || !(thrown instanceof SvcError)) throw thrown;
    return { text: writeGrammar(FREE_OBJECT, new Map(), new Choices()), unsaid: ['the schema'] };
  }
}

class SchemaReader {
  private readonly schema: unknown;
  private readonly references: References;
  private readonly named = new Map<string, Shape>();
  private readonly unsaidParts: string[] = [];
  private readonly lengths = new Set<string>();
  private parts = 0;
  private letters = 0;
  private repeated = 0;

  constructor(schema: unknown) {
    this.schema = schema;
    this.references = new References(schema);
  }

  read(): { root: Shape; named: ReadonlyMap<string, Shape>; unsaid: readonly string[] } {
    const root = this.shape(this.schema, 'the schema', 0);
    return { root, named: this.named, unsaid: this.unsaidParts };
  }

  private shape(schema: unknown, at: string, depth: number): Shape {
    this.parts += 1;
    if (this.parts > PARTS_MAX || depth > DEPTH_MAX)
      throw tooMuch(`a schema with more than ${PARTS_MAX} parts, or deeper than ${DEPTH_MAX}`, at);
    if (schema === true) return ANY;
    if (schema === false) return NEVER;
    if (!isRecord(schema) || Array.isArray(schema))
      return this.leaveOut(`the value ${JSON.stringify(schema)}`, at);
    if (schema.$ref !== undefined) return this.reference(schema, at, depth);
    if (schema.allOf !== undefined) return this.allOf(schema, at, depth);
    if (schema.const !== undefined || schema.enum !== undefined) return this.values(schema, at);
    for (const key of ['anyOf', 'oneOf'])
      if (schema[key] !== undefined) return this.ways(schema, key, at, depth);
    const types = typesOf(schema);
    for (const word of ['any', ...types].flatMap((type) => UNSAID[type] ?? []))
      if (schema[word] !== undefined) this.leaveOut(JSON.stringify(word), at);
    if (types.length === 0) return ANY;
    return oneOf(types.map((type) => this.ofType(type, schema, at, depth)));
  }

  private ofType(type: string, schema: Schema, at: string, depth: number): Shape {
    switch (type) {
      case 'object':
        return this.object(schema, at, depth);
      case 'array':
        return this.array(schema, at, depth);
      case 'string':
        return this.string(schema, at);
      case 'number':
      case 'integer':
        return this.number(type, schema, at);
      case 'boolean':
      case 'null':
        return { kind: 'terminal', type, rule: type };
      default:
        return this.leaveOut(`the type ${JSON.stringify(type)}`, at);
    }
  }

  private object(schema: Schema, at: string, depth: number): Shape {
    const { names, pattern } = this.namesIn(schema, at, depth);
    const further = schema.additionalProperties ?? (names === null ? undefined : true);
    const all = isRecord(schema.properties) ? schema.properties : {};
    const known = Object.entries(all).filter(([name]) => names?.includes(name) ?? true);
    const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
    const more = [...(names ?? []), ...required].filter((name) => !Object.hasOwn(all, name));
    const properties = [
      ...known.map(([name, each]) => [name, each, `${at}.properties.${name}`] as const),
      ...[...new Set(more)].map(
        (name) => [name, further ?? true, `${at}.additionalProperties`] as const,
      ),
    ].map(([name, each, place]): Property => {
      this.spell(name, at);
      return { name, shape: this.shape(each, place, depth + 1), isRequired: required.has(name) };
    });
    // A name that is required and not allowed: there is no such object.
    if ([...required].some((name) => names?.includes(name) === false)) return NEVER;
    const isFree =
      pattern !== null || (further === undefined ? properties.length === 0 : further !== false);
    const others = names === null && isFree ? (pattern?.of ?? further ?? true) : false;
    const { minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema;
    const shape: Shape = {
      kind: 'object',
      properties,
      others: others === false ? null : this.shape(others, `${at}.additionalProperties`, depth + 1),
      ...(pattern === null || others === false ? {} : { nameRule: pattern.rule }),
      ...((minProperties as number) > 0 ? { isFilled: true } : {}),
    };
    const hasCount =
      (minProperties as number) <= Math.max(1, required.size) &&
      (maxProperties as number) >=
        (others === false ? properties.length : Number.POSITIVE_INFINITY);
    return hasCount ? shape : this.leaveOut('a number of properties', at, shape);
  }

  /** The names of properties that a schema allows: the only ones, or the rule of further ones. */
  private namesIn(
    { propertyNames, patternProperties, properties, additionalProperties, required }: Schema,
    at: string,
    depth: number,
  ): { names: readonly string[] | null; pattern: { rule: string; of: unknown } | null } {
    const none = { names: null, pattern: null };
    const patterns = Object.entries(isRecord(patternProperties) ? patternProperties : {});
    const isOpen = [properties, required].every((part) => Object.keys(part ?? {}).length === 0);
    const [first] = patterns;
    if (first !== undefined) {
      const [pattern, of] = first;
      const isOne = patterns.length === 1 && isOpen && propertyNames === undefined;
      if (!isOne) this.leaveOut('"patternProperties"', at);
      // Where no other property may be, one of these patterns has each name.
      if (!isOpen || (!isOne && additionalProperties !== false)) return none;
      const rule = isOne ? this.ruleOf({ type: 'string', pattern }, at) : 'string';
      return { names: null, pattern: { rule, of: isOne ? of : { anyOf: patterns.map(second) } } };
    }
    if (propertyNames === false) return { names: [], pattern: null };
    if (!isRecord(propertyNames) || isNote({ ...propertyNames, type: undefined })) return none;
    const shape = this.shape(
      { ...propertyNames, type: 'string' },
      `${at}.propertyNames`,
      depth + 1,
    );
    if (shape.kind === 'values')
      return { names: shape.texts.map((text) => JSON.parse(text)), pattern: null };
    if (isOpen && shape.kind === 'terminal')
      return { names: null, pattern: { rule: shape.rule, of: additionalProperties ?? true } };
    this.leaveOut('"propertyNames"', at);
    return none;
  }

  private ruleOf(schema: Schema, at: string): string {
    const shape = this.string(schema, at);
    return shape.kind === 'terminal' ? shape.rule : 'string';
  }

  private array(schema: Schema, at: string, depth: number): Shape {
    const isOld = Array.isArray(schema.items);
    const items = isOld ? schema.additionalItems : schema.items;
    const all = isOld ? schema.items : schema.prefixItems;
    const first = (Array.isArray(all) ? all : []).map((each, index) =>
      this.shape(each, `${at}.prefixItems.${index}`, depth + 1),
    );
    const rest = this.shape(items ?? true, `${at}.items`, depth + 1);
    const { minItems: least = 0, maxItems } = this.counts(schema, ['minItems', 'maxItems'], at);
    // Items that only `minItems` asks for are any values. A model has no reason for more of them.
    const open = first.length > 0 && items === undefined ? Math.max(first.length, least) : Infinity;
    const most = Math.min(maxItems ?? Number.POSITIVE_INFINITY, open);
    const shape: Shape = { kind: 'array', first, rest, least, most };
    return schema.uniqueItems === true && most > 1
      ? this.leaveOut('"uniqueItems"', at, shape)
      : shape;
  }

  /** The most exact keyword of a schema: its pattern, its format, or its length. */
  private string(schema: Schema, at: string): Shape {
    const rule = (text: string): Shape => ({ kind: 'terminal', type: 'string', rule: text });
    const { minLength: least = 0, maxLength: most } = this.counts(
      schema,
      ['minLength', 'maxLength'],
      at,
    );
    const length = least > 0 || most !== undefined ? { least, most } : null;
    const format = Object.hasOwn(FORMAT_RULES, String(schema.format))
      ? FORMAT_RULES[String(schema.format)]
      : undefined;
    if (most !== undefined && least > most) return NEVER;
    const pattern = schema.pattern === undefined ? null : this.pattern(schema.pattern, at);
    const isLengthSaid = pattern === null && format === undefined;
    if (length !== null && !isLengthSaid) this.leaveOut('a length beside a pattern or format', at);
    if (pattern?.isExact === true) return rule(pattern.rule);
    if (format !== undefined) return rule(format);
    if (pattern !== null) return rule(pattern.rule);
    return rule(length === null ? 'string' : `"\\"" letter{${least},${most ?? ''}} "\\""`);
  }

  private pattern(sent: unknown, at: string): { rule: string; isExact: boolean } {
    const pattern = String(sent);
    this.spell(pattern, at);
    const name = `the pattern ${JSON.stringify(pattern.slice(0, 100))}`;
    try {
      const { rule, unsaid } = patternRule(pattern);
      if (unsaid !== null) this.leaveOut(`${name} (${unsaid})`, at);
      return { rule, isExact: unsaid === null };
    } catch (thrown) {
      if (!(thrown instanceof UnknownPattern)) throw thrown;
      this.leaveOut(`${name} (${thrown.message})`, at);
      return { rule: 'string', isExact: false };
    }
  }

  private number(type: 'number' | 'integer', schema: Schema, at: string): Shape {
    const multiple = typeof schema.multipleOf === 'number' ? schema.multipleOf : null;
    const isWhole = type === 'integer' || (multiple !== null && Number.isInteger(multiple));
    const shape = (rule: string): Shape => ({ kind: 'terminal', type, rule });
    // 0.01 is at most two places.
    const places = multiple === null ? null : PLACES.indexOf(multiple) + 1;
    const isSaid = multiple === null || multiple === 1 || (places !== 0 && !isWhole);
    if (!isSaid) this.leaveOut(`"multipleOf" ${multiple}`, at);
    const bounds = boundsOf(schema);
    const { least, most } = bounds;
    if ((least ?? 0) > LARGEST || (most ?? 0) < -LARGEST)
      return this.leaveOut(
        `numbers of more than ${`${LARGEST}`.length} digits`,
        at,
        shape(isWhole ? 'integer' : 'number'),
      );
    const broken = [least, most].find((bound) => bound !== null && !Number.isInteger(bound));
    if (!isWhole && broken !== undefined) this.leaveOut(`the bound ${broken}`, at);
    const rule = isWhole
      ? integerRule(wholeBounds(bounds))
      : numberRule(outerBounds(bounds), places === 0 ? null : places);
    return rule === null ? NEVER : shape(rule);
  }

  private reference(schema: Schema, at: string, depth: number): Shape {
    const { $ref, ...others } = schema;
    const { to, target } = this.target(schema, at);
    if (!isNote(others)) return this.mergeAll([target, others], at, depth);
    if (!this.named.has(to)) {
      // Its shape is unknown until it is read.
      this.named.set(to, ANY);
      const place = String($ref).replace(/^#\/?/, '').replaceAll('/', '.');
      this.named.set(to, this.shape(target, place, 0));
    }
    return { kind: 'reference', to };
  }

  /** Throws capability_missing for a reference to nothing, which allows no check either. */
  private target(schema: Schema, at: string): { to: string; target: unknown } {
    const found = this.references.targetOf(schema);
    if (found === null) throw tooMuch(`the reference ${JSON.stringify(schema.$ref)}`, at);
    return found;
  }

  private allOf(schema: Schema, at: string, depth: number): Shape {
    const { allOf, ...others } = schema;
    return this.mergeAll([others, ...(Array.isArray(allOf) ? allOf : [])], at, depth);
  }

  /** The values that all these schemas allow. */
  private mergeAll(schemas: readonly unknown[], at: string, depth: number): Shape {
    const all = schemas.map((schema) => this.resolve(schema, at, depth));
    return this.shape(this.both(all, at), at, depth + 1);
  }

  private both(schemas: readonly unknown[], at: string): Schema | boolean {
    return mergeSchemas(schemas, (word) =>
      this.leaveOut(`${JSON.stringify(word)} that two schemas have`, at),
    );
  }

  /** A schema with the keywords of the schema that it refers to. */
  private resolve(schema: unknown, at: string, depth: number): unknown {
    if (!isRecord(schema) || schema.$ref === undefined) return schema;
    if (depth > DEPTH_MAX) throw tooMuch(`references deeper than ${DEPTH_MAX}`, at);
    const { $ref: _, ...others } = schema;
    const target = this.resolve(this.target(schema, at).target, at, depth + 1);
    return isNote(others) ? target : this.both([target, others], at);
  }

  private ways(schema: Schema, key: string, at: string, depth: number): Shape {
    const { [key]: list, ...others } = schema;
    const all: readonly unknown[] = Array.isArray(list) ? list : [];
    const ways = all.map((each, index) => {
      const place = `${at}.${key}.${index}`;
      if (isNote(others)) return this.shape(each, place, depth + 1);
      // Without a difference the reference stays: it may refer to itself.
      const own = this.resolve(each, place, depth);
      const isSame =
        isRecord(own) && JSON.stringify(mergeSchemas([own, others])) === JSON.stringify(own);
      return this.shape(isSame ? each : this.both([others, own], place), place, depth + 1);
    });
    const shape = oneOf(ways);
    const isOne = key === 'anyOf' || areApart(ways, all, this.named);
    return isOne ? shape : this.leaveOut('"oneOf" whose schemas allow the same value', at, shape);
  }

  private values(schema: Schema, at: string): Shape {
    const other = Object.keys(schema).find(
      (word) => ASSERTIONS.has(word) && !['const', 'enum', 'type'].includes(word),
    );
    if (other !== undefined) this.leaveOut(`${JSON.stringify(other)} beside fixed values`, at);
    const types = schema.type === undefined ? null : typesOf(schema);
    const lists = [schema.const === undefined ? undefined : [schema.const], schema.enum];
    const [first = [], second = first] = lists
      .filter((list) => Array.isArray(list))
      .map((list) =>
        list.filter((value) => types === null || types.some((type) => isOf(type, value))),
      )
      .map((list) => list.map((value) => JSON.stringify(value)));
    const texts = first.filter((text) => second.includes(text));
    // The schema itself is one part already.
    this.parts += Math.max(0, texts.length - 1);
    for (const text of texts) this.spell(text, at);
    return { kind: 'values', texts };
  }

  private spell(text: string, at: string): void {
    this.letters += text.length;
    if (this.letters > LETTERS_MAX)
      throw tooMuch(`more than ${LETTERS_MAX} letters of fixed values and names`, at);
  }

  /** The words that a schema has, each a number that a grammar can count to. */
  private counts(schema: Schema, words: readonly string[], at: string): Record<string, number> {
    const known = words.filter((word) => {
      if (schema[word] === undefined) return false;
      const isSaid = Number.isSafeInteger(schema[word]) && (schema[word] as number) <= REPEATED_MAX;
      if (!isSaid) this.leaveOut(`${word} ${JSON.stringify(schema[word])}`, at);
      return isSaid;
    });
    const counts = Object.fromEntries(known.map((word) => [word, schema[word] as number]));
    const key = JSON.stringify(counts);
    // A list repeats another rule each time.
    const isReused = counts.maxItems === undefined && this.lengths.has(key);
    this.lengths.add(key);
    if (!isReused) this.repeated += Math.max(0, ...Object.values(counts));
    if (this.repeated > REPEATED_SUM_MAX)
      throw tooMuch(`lists and texts of more than ${REPEATED_SUM_MAX} items and letters`, at);
    return counts;
  }

  /** No grammar says it: `instead` is allowed. */
  private leaveOut(what: string, at: string, instead: Shape = ANY): Shape {
    if (this.unsaidParts.length < UNSAID_MAX) this.unsaidParts.push(`${what} at ${at}`);
    return instead;
  }
}

const UNSAID_MAX = 16;
/** The powers of ten that a bound on decimal places is. */
const PLACES = [0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001];

function second<T>([, value]: readonly [unknown, T]): T {
  return value;
}

/** One of these shapes. Fixed values are one choice, which shares their beginnings. */
function oneOf(shapes: readonly Shape[]): Shape {
  const texts = shapes.flatMap((shape) => (shape.kind === 'values' ? shape.texts : []));
  const others = shapes.filter(({ kind }) => kind !== 'values');
  const ways: Shape[] = texts.length === 0 ? others : [{ kind: 'values', texts }, ...others];
  return ways.length === 1 ? (ways[0] as Shape) : { kind: 'ways', ways };
}

/** The types that a schema names, or else the type that its keywords are for. */
function typesOf(schema: Schema): readonly string[] {
  const { type } = schema;
  const all = type === undefined ? [] : [...new Set([type].flat().map(String))];
  if (all.length > 0) return all.filter((each) => each !== 'integer' || !all.includes('number'));
  const meant = WORDS.find(([, words]) => words.some((word) => schema[word] !== undefined));
  return meant === undefined ? [] : [meant[0]];
}

function isOf(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  return typeof value === type && value !== null && !Array.isArray(value);
}
