import { isRecord } from '../json.ts';
import { JsonEnd } from './json-end.ts';
import { jsonOf, type Quotes } from './literal.ts';
import { afterSpace, matchAt, type Pattern } from './pattern.ts';

/** How the arguments of a call are written. */
export type Syntax =
  | { readonly kind: 'json' }
  | ({ readonly kind: 'tags' } & Tags)
  | ({ readonly kind: 'literals' } & Literals);

/** A tag for each argument: `open`, its name, one of `middles`, its value, `close`. */
export interface Tags {
  readonly open: string;
  /** The text before a value, with its type. The first one that fits a value is written. */
  readonly middles: readonly { readonly text: string; readonly type: 'schema' | 'text' | 'json' }[];
  readonly close: string;
  /** A value has a line break before and after it that does not belong to it. */
  readonly breaks: boolean;
  /** The text after each argument. */
  readonly after: string;
}

/** Names and values as a program writes them. */
export interface Literals {
  readonly assign: '=' | ':';
  readonly close: ')' | '}';
  readonly quotes: Quotes;
}

/** Reads the arguments of one call as JSON, from a text that arrives in pieces. */
export interface ArgumentsReader {
  /** Of each letter in `control`: `1` for the text of a control token, which is not a value. */
  push(text: string, control: string): ReadArguments;
}

interface ReadArguments {
  /** Letters that were read. The rest comes again with what follows. */
  readonly read: number;
  readonly json: string;
  readonly isOver: boolean;
}

type Schema = Readonly<Record<string, unknown>>;

export function argumentsReader(syntax: Syntax, parameters: Schema): ArgumentsReader {
  switch (syntax.kind) {
    case 'json':
      return new JsonArguments();
    case 'tags':
      return new TaggedArguments(syntax, parameters);
    case 'literals':
      return new LiteralArguments(syntax, parameters);
  }
}

/** Letters of the name of an argument. */
const KEY_MAX = 256;

class JsonArguments implements ArgumentsReader {
  private readonly end = new JsonEnd();
  /** The arguments as a text that has the JSON. Null: they are not a text. */
  private quoted: string | null = null;

  push(text: string, control: string): ReadArguments {
    const hadBegun = this.end.hasBegun;
    const end = this.end.push(text);
    const read = end ?? text.length;
    const letters = withoutControl(text.slice(0, read), control);
    const shown = hadBegun ? letters : letters.trimStart();
    if (end !== null && !this.end.hasBegun) return { read, json: '{}', isOver: true };
    if (!hadBegun && shown.startsWith('"')) this.quoted = '';
    if (this.quoted === null) return { read, json: shown, isOver: end !== null };
    this.quoted += shown;
    return { read, json: end === null ? '' : unquote(this.quoted), isOver: end !== null };
  }
}

/** The JSON that a text of JSON has, or the text. */
export function unquote(json: string): string {
  try {
    const text: unknown = JSON.parse(json);
    if (typeof text === 'string' && isRecord(JSON.parse(text))) return text;
  } catch {
    // The text stays as the model wrote it.
  }
  return json;
}

/** Writes pairs as one object. */
class Pairs {
  private hasOne = false;

  add(key: string, value: string): string {
    const before = this.hasOne ? ', ' : '{';
    this.hasOne = true;
    return `${before}${JSON.stringify(key)}: ${value}`;
  }

  end(): string {
    return this.hasOne ? '}' : '{}';
  }
}

class TaggedArguments implements ArgumentsReader {
  private readonly tags: Tags;
  private readonly middles: readonly { pattern: Pattern; type: 'schema' | 'text' | 'json' }[];
  private readonly parameters: Schema;
  private readonly pairs = new Pairs();
  /** The argument whose value is read. Null: none. */
  private key: string | null = null;
  private type: 'schema' | 'text' | 'json' = 'schema';
  private isKey = false;
  private value = '';

  constructor(tags: Tags, parameters: Schema) {
    this.tags = tags;
    this.middles = tags.middles.map(({ text, type }) => ({ pattern: [text], type }));
    this.parameters = parameters;
  }

  push(text: string, control: string): ReadArguments {
    let read = 0;
    let json = '';
    for (;;) {
      const step =
        this.key !== null
          ? this.readValue(text.slice(read), control.slice(read))
          : this.isKey
            ? this.readKey(text.slice(read))
            : this.readOpen(text.slice(read));
      read += step.read;
      json += step.json;
      if (step.isOver || step.read === 0) return { read, json, isOver: step.isOver };
    }
  }

  private readOpen(text: string): ReadArguments {
    const at = afterSpace(text, 0);
    const open = matchAt([{ exact: this.tags.open }], text, at);
    if (open === 'partial') return { read: 0, json: '', isOver: false };
    if (open === 'none') return { read: 0, json: this.pairs.end(), isOver: true };
    this.isKey = true;
    return { read: open.end, json: '', isOver: false };
  }

  private readKey(text: string): ReadArguments {
    for (let at = 0; at < text.length && at <= KEY_MAX; at += 1)
      for (const { pattern, type } of this.middles) {
        const matched = matchAt(pattern, text, at);
        if (matched === 'partial') return { read: 0, json: '', isOver: false };
        if (matched === 'none') continue;
        [this.isKey, this.key, this.type, this.value] = [false, text.slice(0, at).trim(), type, ''];
        return { read: matched.end, json: '', isOver: false };
      }
    const isOver = text.length > KEY_MAX;
    return { read: 0, json: isOver ? this.pairs.end() : '', isOver };
  }

  private readValue(text: string, control: string): ReadArguments {
    const { close } = this.tags;
    const end = text.indexOf(close);
    // The last letters may begin the end of the value.
    const read = end < 0 ? Math.max(0, text.length - close.length + 1) : end;
    this.value += withoutControl(text.slice(0, read), control);
    if (end < 0) return { read, json: '', isOver: false };
    const key = this.key as string;
    const json = this.pairs.add(key, this.jsonOfValue(key));
    this.key = null;
    return { read: read + close.length, json, isOver: false };
  }

  private jsonOfValue(key: string): string {
    const value = this.tags.breaks ? this.value.replace(/^\r?\n|\r?\n$/g, '') : this.value;
    if (this.type === 'text') return JSON.stringify(value);
    const types = this.type === 'json' ? null : typesIn(propertyOf(this.parameters, key));
    return typedJson(value, types);
  }
}

/** A value as JSON of one of these types. Null: any type. */
function typedJson(text: string, types: ReadonlySet<string> | null): string {
  if (types?.size === 1 && types.has('string')) return JSON.stringify(text);
  const said = text.trim();
  const json = { True: 'true', False: 'false', None: 'null' }[said] ?? said;
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== 'string' && (types === null || types.has(typeOf(value)))) return json;
    if (typeof value === 'string' && types?.has('string') !== true) return json;
  } catch {
    // A text that is not JSON.
  }
  return JSON.stringify(text);
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'number' ? 'number' : typeof value;
}

/** The schema of an argument. Undefined: it has none. */
export function propertyOf(parameters: Schema, key: string): unknown {
  const { properties } = parameters;
  if (!isRecord(properties) || !Object.hasOwn(properties, key)) return undefined;
  return followReference(properties[key], parameters);
}

/** The schema that a reference leads to, within the whole one. */
export function followReference(schema: unknown, whole: Schema, depth = 0): unknown {
  if (!isRecord(schema) || typeof schema.$ref !== 'string') return schema;
  const [begin, ...path] = schema.$ref.split('/');
  if (begin !== '#' || depth > TYPES_DEPTH) return schema;
  const target = path.reduce<unknown>(
    (at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined),
    whole,
  );
  return target === undefined ? schema : followReference(target, whole, depth + 1);
}

/** The types that a schema allows. Null: it does not say. */
export function typesIn(schema: unknown, depth = 0): ReadonlySet<string> | null {
  if (!isRecord(schema) || depth > TYPES_DEPTH) return null;
  const { type, anyOf, oneOf, enum: values, const: constant } = schema;
  if (type !== undefined) return new Set([type].flat().map(typeName));
  const fixed = Array.isArray(values) ? values : constant === undefined ? null : [constant];
  if (fixed !== null) return new Set(fixed.map(typeOf));
  const ways = anyOf ?? oneOf;
  if (!Array.isArray(ways)) return null;
  const all = ways.map((way) => typesIn(way, depth + 1));
  return all.includes(null) ? null : new Set(all.flatMap((types) => [...(types ?? [])]));
}
const TYPES_DEPTH = 8;

function typeName(type: unknown): string {
  return type === 'integer' ? 'number' : String(type);
}

class LiteralArguments implements ArgumentsReader {
  private readonly form: Literals;
  private readonly names: readonly string[];
  private readonly pairs = new Pairs();
  private item = '';
  private count = 0;
  private depth = 0;
  private quote: string | null = null;
  private isEscape = false;

  constructor(form: Literals, { properties }: Schema) {
    this.form = form;
    this.names = isRecord(properties) ? Object.keys(properties) : [];
  }

  push(text: string, control: string): ReadArguments {
    let json = '';
    let at = 0;
    while (at < text.length) {
      const quote = this.quoteAt(text, at);
      if (quote === 'partial') break;
      if (quote !== null) {
        this.quote = this.quote === null ? quote : null;
        this.item += quote;
        at += quote.length;
        continue;
      }
      const letter = text[at] as string;
      at += 1;
      if (
        this.quote === null &&
        this.depth === 0 &&
        (letter === ',' || letter === this.form.close)
      ) {
        json += this.take();
        if (letter === ',') continue;
        return { read: at, json: json + this.pairs.end(), isOver: true };
      }
      this.step(letter, control[at - 1] === '1');
    }
    return { read: at, json, isOver: false };
  }

  private step(letter: string, isControl: boolean): void {
    if (!isControl) this.item += letter;
    if (this.isEscape) this.isEscape = false;
    else if (this.quote !== null) this.isEscape = letter === '\\' && this.form.close === ')';
    else if (/[[{(]/.test(letter)) this.depth += 1;
    else if (/[\]})]/.test(letter)) this.depth -= 1;
  }

  /** The quote that begins or ends a text here. */
  private quoteAt(text: string, at: number): string | 'partial' | null {
    if (this.isEscape) return null;
    for (const quote of this.quote === null ? this.form.quotes : [this.quote]) {
      if (text.startsWith(quote, at)) return quote;
      if (text.length - at < quote.length && quote.startsWith(text.slice(at))) return 'partial';
    }
    return null;
  }

  private take(): string {
    const { item } = this;
    this.item = '';
    if (item.trim() === '') return '';
    const { quotes, assign } = this.form;
    const [begin, key] = KEYS[assign].exec(item) ?? ['', null];
    const name = key ?? this.names[this.count] ?? `argument${this.count + 1}`;
    this.count += 1;
    return this.pairs.add(unquotedKey(name, quotes), jsonOf(item.slice(begin.length), quotes));
  }
}

const KEYS = { '=': /^\s*([\p{L}_][\w.-]*)\s*=(?!=)/u, ':': /^\s*([^:{}[\],]*?)\s*:/ };

function unquotedKey(key: string, quotes: Quotes): string {
  const quote = quotes.find(
    (each) => key.length >= 2 * each.length && key.startsWith(each) && key.endsWith(each),
  );
  return quote === undefined ? key : key.slice(quote.length, -quote.length);
}

/** `control`: of each letter, `1` for one of a control token. */
export function withoutControl(letters: string, control: string): string {
  if (!control.slice(0, letters.length).includes('1')) return letters;
  return Array.from({ length: letters.length }, (_, at) =>
    control[at] === '1' ? '' : letters[at],
  ).join('');
}
