import { SvcError } from '../../../../errors.ts';
import { isRecord } from '../../../../json.ts';
import { areApart } from './apart.ts';
import { BRANCHES_MAX, branchesOf } from './branches.ts';
import { Choices } from './choice.ts';
import { FORMAT_RULES } from './format.ts';
import { NOTES as MERGED_NOTES, mergeSchemas, type Schema } from './merge.ts';
import { boundsOf, integerRule, LARGEST, numberRule, wholeBounds } from './number.ts';
import { patternRule } from './pattern.ts';
import { UnknownPattern } from './ranges.ts';
import { ANY, NEVER, type Property, type Shape } from './shape.ts';
import { tooMuch, writeGrammar } from './write.ts';

/**
 * What happens to a part of a schema that no grammar says: the schema is refused, or the part is
 * left out, because the schema only guides the model.
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

/** Words that say nothing about which values are valid. */
const NOTES: ReadonlySet<string> = new Set([
  ...MERGED_NOTES,
  'format',
  '$schema',
  '$comment',
  '$defs',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
]);
/** The words that say which values of a type are valid. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
  object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties'],
  boolean: [],
  null: [],
};
const FREE_OBJECT: Shape = { kind: 'object', properties: [], others: ANY };

/**
 * The grammar of the values that a schema allows, or of a part of these values. Throws
 * capability_missing, which names the part that no grammar can say, or that makes it too large. A
 * schema that only guides the model is then left out as a whole.
 */
export function schemaGrammar(schema: unknown, strictness: Strictness): string {
  try {
    const { root, named } = new SchemaReader(schema, strictness).read();
    const choices = new Choices();
    if (branchesOf(root, named, choices) > BRANCHES_MAX)
      throw tooMuch('so many values and forms that begin alike');
    return writeGrammar(root, named, choices);
  } catch (thrown) {
    if (strictness === 'refuse' || !(thrown instanceof SvcError)) throw thrown;
    return writeGrammar(FREE_OBJECT, new Map(), new Choices());
  }
}

class SchemaReader {
  private readonly schema: unknown;
  private readonly strictness: Strictness;
  private readonly named = new Map<string, Shape>();
  private readonly lengths = new Set<string>();
  private parts = 0;
  private letters = 0;
  private repeated = 0;

  constructor(schema: unknown, strictness: Strictness) {
    this.schema = schema;
    this.strictness = strictness;
  }

  read(): { root: Shape; named: ReadonlyMap<string, Shape> } {
    const root = this.shape(this.schema, 'the schema', 0);
    return { root, named: this.named };
  }

  private shape(schema: unknown, at: string, depth: number): Shape {
    this.parts += 1;
    if (this.parts > PARTS_MAX || depth > DEPTH_MAX)
      throw tooMuch(`a schema with more than ${PARTS_MAX} parts, or deeper than ${DEPTH_MAX}`, at);
    if (schema === true) return ANY;
    if (schema === false) return NEVER;
    if (!isRecord(schema) || Array.isArray(schema))
      return this.unsaid(`the value ${JSON.stringify(schema)}`, at);
    if (schema.$ref !== undefined) return this.reference(schema, at, depth);
    if (schema.allOf !== undefined) return this.allOf(schema, at, depth);
    if (schema.const !== undefined || schema.enum !== undefined) return this.values(schema, at);
    for (const key of ['anyOf', 'oneOf'])
      if (schema[key] !== undefined) return this.ways(schema, key, at, depth);
    const types = typesOf(schema);
    this.check(schema, ['type', ...types.flatMap((type) => WORDS[wordsOf(type)] ?? [])], at);
    if (types.length === 0) return ANY;
    const shapes = types.map((type) => this.ofType(type, schema, at, depth));
    return shapes.length === 1 ? (shapes[0] as Shape) : { kind: 'ways', ways: shapes };
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
        return this.unsaid(`the type ${JSON.stringify(type)}`, at);
    }
  }

  private object(schema: Schema, at: string, depth: number): Shape {
    const { additionalProperties: others } = schema;
    const known = isRecord(schema.properties) ? schema.properties : {};
    const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
    const unknown = [...required].filter((name) => !Object.hasOwn(known, name));
    const schemas = [
      ...Object.entries(known).map(([name, each]) => [name, each, `${at}.properties.${name}`]),
      ...unknown.map((name) => [name, others ?? true, `${at}.additionalProperties`]),
    ] as [name: string, schema: unknown, at: string][];
    const properties = schemas.map(([name, each, place]): Property => {
      this.spell(name, at);
      return { name, shape: this.shape(each, place, depth + 1), isRequired: required.has(name) };
    });
    const isFree = others === undefined ? properties.length === 0 : others !== false;
    const shape: Shape = {
      kind: 'object',
      properties,
      others: isFree ? this.shape(others ?? true, `${at}.additionalProperties`, depth + 1) : null,
    };
    const { minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema;
    const hasCount =
      (minProperties as number) <= required.size &&
      (maxProperties as number) >= (isFree ? Number.POSITIVE_INFINITY : properties.length);
    return hasCount ? shape : this.unsaid('a number of properties', at, shape);
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
      ? this.unsaid('"uniqueItems"', at, shape)
      : shape;
  }

  private string(schema: Schema, at: string): Shape {
    const rule = (text: string): Shape => ({ kind: 'terminal', type: 'string', rule: text });
    const { minLength: least = 0, maxLength: most } = this.counts(
      schema,
      ['minLength', 'maxLength'],
      at,
    );
    const hasLength = least > 0 || most !== undefined;
    const format = Object.hasOwn(FORMAT_RULES, String(schema.format))
      ? FORMAT_RULES[String(schema.format)]
      : undefined;
    const forms = [hasLength, format !== undefined, schema.pattern !== undefined];
    if (forms.filter(Boolean).length > 1)
      return this.unsaid('two of a pattern, a format and a length', at, rule('string'));
    if (most !== undefined && least > most) return NEVER;
    if (format !== undefined) return rule(format);
    if (schema.pattern !== undefined) return this.pattern(String(schema.pattern), at);
    return rule(hasLength ? `"\\"" letter{${least},${most ?? ''}} "\\""` : 'string');
  }

  private pattern(pattern: string, at: string): Shape {
    this.spell(pattern, at);
    try {
      return { kind: 'terminal', type: 'string', rule: patternRule(pattern) };
    } catch (thrown) {
      if (!(thrown instanceof UnknownPattern)) throw thrown;
      const what = `the pattern ${JSON.stringify(pattern.slice(0, 100))} (${thrown.message})`;
      return this.unsaid(what, at, { kind: 'terminal', type: 'string', rule: 'string' });
    }
  }

  private number(type: 'number' | 'integer', schema: Schema, at: string): Shape {
    const { multipleOf } = schema;
    const isWhole = type === 'integer' || multipleOf === 1;
    const shape = (rule: string): Shape => ({ kind: 'terminal', type, rule });
    const any = shape(isWhole ? 'integer' : 'number');
    if (multipleOf !== undefined && multipleOf !== 1)
      return this.unsaid(`"multipleOf" ${JSON.stringify(multipleOf)}`, at, any);
    const bounds = boundsOf(schema);
    const { least, most } = bounds;
    const isExact = [least, most].every((bound) => bound === null || Number.isInteger(bound));
    if (!isWhole && !isExact)
      return this.unsaid(
        `the bound ${[least, most].find((bound) => !Number.isInteger(bound))}`,
        at,
        any,
      );
    if ((least ?? 0) > LARGEST || (most ?? 0) < -LARGEST)
      return this.unsaid(`numbers of more than ${`${LARGEST}`.length} digits`, at, any);
    const rule = isWhole ? integerRule(wholeBounds(bounds)) : numberRule(bounds);
    return rule === null ? NEVER : shape(rule);
  }

  private reference(schema: Schema, at: string, depth: number): Shape {
    const { $ref, ...others } = schema;
    const to = String($ref);
    const target = targetOf(to, this.schema);
    if (target === undefined) return this.unsaid(`the reference ${JSON.stringify($ref)}`, at);
    if (!isNote(others)) return this.merged([target, others], 'a reference', at, depth);
    if (!this.named.has(to)) {
      // Until it is read, nothing can be said of it.
      this.named.set(to, ANY);
      this.named.set(to, this.shape(target, to.replace(/^#\/?/, '').replaceAll('/', '.'), 0));
    }
    return { kind: 'reference', to };
  }

  private allOf(schema: Schema, at: string, depth: number): Shape {
    const { allOf, ...others } = schema;
    return this.merged([others, ...(Array.isArray(allOf) ? allOf : [null])], '"allOf"', at, depth);
  }

  /** The values that all these schemas allow. */
  private merged(schemas: readonly unknown[], what: string, at: string, depth: number): Shape {
    const all = schemas.map((schema) => this.resolved(schema, at, depth));
    const merged = mergeSchemas(all);
    return merged === null
      ? this.unsaid(`${what} beside other words that say the same differently`, at)
      : this.shape(merged, at, depth + 1);
  }

  /** A schema with the words of what it refers to. */
  private resolved(schema: unknown, at: string, depth: number): unknown {
    if (!isRecord(schema) || schema.$ref === undefined) return schema;
    if (depth > DEPTH_MAX) throw tooMuch(`references deeper than ${DEPTH_MAX}`, at);
    const { $ref, ...others } = schema;
    const target = this.resolved(targetOf(String($ref), this.schema), at, depth + 1);
    return isNote(others) ? (target ?? null) : mergeSchemas([target ?? null, others]);
  }

  private ways(schema: Schema, key: string, at: string, depth: number): Shape {
    const { [key]: list, ...others } = schema;
    const all: readonly unknown[] = Array.isArray(list) ? list : [];
    if (all.length === 0) return this.unsaid(`"${key}"`, at);
    const ways = all.map((each, index) => {
      const place = `${at}.${key}.${index}`;
      if (isNote(others)) return this.shape(each, place, depth + 1);
      // Without a difference the reference stays: it may refer to itself.
      const own = this.resolved(each, place, depth);
      const both = mergeSchemas([others, own]);
      const isSame =
        isRecord(own) && JSON.stringify(mergeSchemas([own, others])) === JSON.stringify(own);
      if (both === null) return this.unsaid(`"${key}" beside other words`, place);
      return this.shape(isSame ? each : both, place, depth + 1);
    });
    const shape = oneOf(ways);
    const isOne = key === 'anyOf' || areApart(ways, all, this.named);
    return isOne ? shape : this.unsaid('"oneOf" whose schemas allow the same value', at, shape);
  }

  private values(schema: Schema, at: string): Shape {
    this.check(schema, ['const', 'enum', 'type'], at);
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
    const known = words.filter((word) => schema[word] !== undefined);
    const wrong = known.find(
      (word) => !Number.isSafeInteger(schema[word]) || (schema[word] as number) > REPEATED_MAX,
    );
    if (wrong !== undefined) {
      this.unsaid(`${wrong} ${JSON.stringify(schema[wrong])}`, at);
      return {};
    }
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

  private check(schema: Schema, known: readonly string[], at: string): void {
    const other = Object.keys(schema).find(
      (key) => !NOTES.has(key) && !known.includes(key) && !(key === '$id' && at === 'the schema'),
    );
    if (other !== undefined) this.unsaid(JSON.stringify(other), at);
  }

  /** No grammar says it: the schema is refused, or `instead` is allowed. */
  private unsaid(what: string, at: string, instead: Shape = ANY): Shape {
    if (this.strictness === 'refuse') throw tooMuch(what, at);
    return instead;
  }
}

/** One of these shapes. Fixed values are one choice, which shares what they begin with. */
function oneOf(shapes: readonly Shape[]): Shape {
  const texts = shapes.flatMap((shape) => (shape.kind === 'values' ? shape.texts : []));
  const others = shapes.filter(({ kind }) => kind !== 'values');
  const ways: Shape[] = texts.length === 0 ? others : [{ kind: 'values', texts }, ...others];
  return ways.length === 1 ? (ways[0] as Shape) : { kind: 'ways', ways };
}

/** Whether no word of a schema says which values are valid. */
export function isNote(schema: Schema): boolean {
  return Object.keys(schema).every((key) => NOTES.has(key) || key === '$id');
}

/** The types that a schema names, or else the one that its words are for. */
function typesOf(schema: Schema): readonly string[] {
  const { type } = schema;
  const all = Array.isArray(type) ? [...new Set(type.map(String))] : [];
  if (all.length > 0) return all.filter((each) => each !== 'integer' || !all.includes('number'));
  if (type !== undefined) return [String(type)];
  const meant = ['object', 'array', 'string', 'number'].find((each) =>
    WORDS[each]?.some((word) => schema[word] !== undefined),
  );
  return meant === undefined ? [] : [meant];
}

function wordsOf(type: string): string {
  return type === 'integer' ? 'number' : type;
}

function isOf(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  return typeof value === type && value !== null && !Array.isArray(value);
}

/** The part of a schema to which a reference within it points. Undefined: there is none. */
function targetOf(reference: string, root: unknown): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  let target = root;
  for (const part of reference.split('/').slice(1)) {
    const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (!isRecord(target) || !Object.hasOwn(target, name)) return undefined;
    target = target[name];
    // References below it would begin there.
    if (isRecord(target) && target.$id !== undefined) return undefined;
  }
  return target;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
