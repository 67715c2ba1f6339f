import { SvcError } from '../errors.ts';
import { isRecord } from '../json.ts';
import { followReference, propertyOf, type Tags, typesIn } from './arguments.ts';
import type { CallRow } from './form.ts';
import { escapeInClass } from './grammar/choice.ts';
import { schemaGrammar } from './grammar/schema.ts';
import { middleFor } from './write.ts';

/** The rules that a required call follows, in the form of the model. */

type Schema = Readonly<Record<string, unknown>>;

/** Arguments of one tool: the grammar says which of them may follow each other. */
const PROPERTIES_MAX = 64;
const LETTERS_MAX = 262_144;

export function literal(text: string): string {
  return JSON.stringify(text);
}

/** The beginning of a call of this tool, up to its arguments. */
export function headRule({ written: { head } }: CallRow, name: string): string {
  const parts = head.map((part) => {
    if (typeof part === 'string') return literal(part);
    return 'name' in part ? literal(name) : `${part.word.source}{${part.most}}`;
  });
  const last = head.at(-1);
  // Only a tag shows that a name at the end is whole.
  return [...parts, ...(typeof last === 'object' && 'name' in last ? ['"<"'] : [])].join(' ');
}

/**
 * The grammar of the arguments of a tool, and of what follows them. What of the schema no grammar
 * says is left out. Throws capability_missing.
 */
export function argumentsGrammar({ syntax, written }: CallRow, schema: Schema): string {
  const last = written.head.at(-1);
  const space = typeof last === 'string' ? (/\s+$/.exec(last)?.[0] ?? '') : '';
  const begin = space === '' ? '' : `(${literal(space)})? `;
  const rules = new Rules(schema);
  if (syntax.kind === 'json') return rules.write(begin + rules.json(schema));
  const { properties } = schema;
  const names = isRecord(properties) ? Object.keys(properties) : [];
  if (names.length > PROPERTIES_MAX)
    throw tooMany(`more than ${PROPERTIES_MAX} arguments in the form of this model`);
  const required = Array.isArray(schema.required) ? schema.required.map(String) : [];
  const isRequired = (name: string) => required.includes(name);
  const value = (name: string) => propertyOf(schema, name);
  if (syntax.kind === 'tags') {
    const items = names.map((name) => ({
      isRequired: isRequired(name),
      rule: taggedArguments(syntax, name, value(name), rules),
    }));
    return rules.write(`${begin}${rules.inOrder(items, '[\\n]?')} [\\n]? ${literal(written.tail)}`);
  }
  const { assign, quotes, close } = syntax;
  const isPython = assign === '=';
  const quoted = (value: unknown) => rules.quotedRuleOf(value, quotes[0] ?? '"');
  const valueRule = (value: unknown) => (isPython ? rules.json(value, PYTHON) : quoted(value));
  // Other templates write the names in sorted order.
  const items = (isPython ? names : names.sort()).map((name) => ({
    isRequired: isRequired(name),
    rule: `${literal(name + assign)} ${valueRule(value(name))}`,
  }));
  return rules.write(`${rules.inOrder(items, isPython ? '", "' : '","')} ${literal(close)}`);
}

function taggedArguments(tags: Tags, name: string, schema: unknown, rules: Rules): string {
  const types = typesIn(schema);
  const isText = types === null || types.has('string');
  const space = literal(tags.breaks ? '\n' : '');
  const open = literal(tags.open + name + middleFor(tags.middles, isText));
  const value = isText
    ? rules.text(schema, tags.close, tags.breaks)
    : `${rules.json(schema)} ${space} ${literal(tags.close)}`;
  return `${open} ${space} ${value}`;
}

/** How Python spells the words of JSON. */
const PYTHON = {
  'boolean ::= "true" | "false"': 'boolean ::= "True" | "False"',
  'null ::= "null"': 'null ::= "None"',
};

class Rules {
  /** The schema of all arguments. */
  private readonly whole: Schema;
  private readonly rules: string[] = [];
  private readonly untils = new Map<string, string>();
  private count = 0;
  private size = 0;

  constructor(whole: Schema) {
    this.whole = whole;
  }

  /** One item after the other. Those that are not required may be left out. */
  inOrder(items: readonly { rule: string; isRequired: boolean }[], separator: string): string {
    const from = (at: number, isFirst: boolean): string => {
      const required = items.findIndex(({ isRequired }, index) => index >= at && isRequired);
      const to = required < 0 ? items.length : required + 1;
      const ways = items
        .slice(at, to)
        .map((_, index) => `${isFirst ? '' : `${separator} `}${names[at + index]}`);
      return `(${[...ways, ...(required < 0 ? ['""'] : [])].join(' | ')})`;
    };
    const names = items.map(() => this.name());
    for (const [at, { rule }] of items.entries())
      this.add(names[at] as string, `${rule} ${from(at + 1, false)}`);
    return from(0, true);
  }

  /** A value of JSON. `words`: rules that replace those of JSON. */
  json(schema: unknown, words: Readonly<Record<string, string>> = {}): string {
    const name = this.name();
    const rules = schemaGrammar(this.withDefinitions(schema), 'leave_out').text.split('\n');
    const own = rules.map((rule) => words[rule] ?? rule).join('\n');
    const prefixed = own.replace(/"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|[a-z][\w-]*/g, (part) =>
      /^["[]/.test(part) ? part : `${name}-${part}`,
    );
    this.push(prefixed);
    return `${name}-root`;
  }

  /** A text up to a mark, with the mark: one of those that the schema names, or any. */
  text(schema: unknown, close: string, breaks: boolean): string {
    const values = isRecord(schema) && Array.isArray(schema.enum) ? schema.enum : [];
    const texts = values.filter((value) => typeof value === 'string');
    if (texts.length === 0 || texts.length < values.length) return this.until(close);
    const end = literal((breaks ? '\n' : '') + close);
    return `(${texts.map(literal).join(' | ')}) ${end}`;
  }

  /** A value whose texts have quotes of their own. */
  quotedRuleOf(some: unknown, quote: string, depth = 0): string {
    const schema = followReference(some, this.whole);
    const types = typesIn(schema);
    const { enum: values, items, properties } = isRecord(schema) ? schema : ({} as Schema);
    const text = (value: unknown) => literal(quote + String(value) + quote);
    if (Array.isArray(values) && values.every((value) => typeof value === 'string'))
      return `(${values.map(text).join(' | ')})`;
    if (types?.size !== 1 || depth > QUOTED_DEPTH) return this.anyQuotedRule(quote);
    const [type] = types;
    if (type === 'string') return `${literal(quote)} ${this.until(quote)}`;
    if (type === 'array') {
      const item = this.addNamed(this.quotedRuleOf(items, quote, depth + 1));
      return `"[" ${repeatItems(item, schema as Schema)} "]"`;
    }
    if (type === 'object') {
      const names = isRecord(properties) ? Object.keys(properties).sort() : [];
      if (names.length === 0) return this.anyQuotedRule(quote);
      const { required } = schema as Schema;
      const value = (name: string) => propertyOf(schema as Schema, name);
      const all = names.map((name) => ({
        isRequired: Array.isArray(required) && required.includes(name),
        rule: `${literal(`${name}:`)} ${this.quotedRuleOf(value(name), quote, depth + 1)}`,
      }));
      return `"{" ${this.inOrder(all, '","')} "}"`;
    }
    return this.json(schema);
  }

  write(root: string): string {
    return [`root ::= ${root}`, ...this.rules].join('\n');
  }

  /** References lead to where the whole schema has them. */
  private withDefinitions(schema: unknown): unknown {
    const { $defs, definitions } = this.whole;
    if (!isRecord(schema) || schema === this.whole) return schema ?? true;
    return {
      ...schema,
      ...($defs === undefined ? {} : { $defs }),
      ...(definitions === undefined ? {} : { definitions }),
    };
  }

  private anyQuotedRule(quote: string): string {
    const known = this.untils.get('any');
    if (known !== undefined) return known;
    const name = this.name();
    this.untils.set('any', name);
    const word = this.json({ type: ['number', 'boolean', 'null'] });
    const value = `${literal(quote)} ${this.until(quote)} | ${word}`;
    const pair = `[a-zA-Z0-9_-]+ ":" ${name}`;
    this.add(
      name,
      `${value} | "[" (${name} ("," ${name})*)? "]" | "{" (${pair} ("," ${pair})*)? "}"`,
    );
    return name;
  }

  /** Any text that does not have the mark, then the mark. */
  private until(mark: string): string {
    const known = this.untils.get(mark);
    if (known !== undefined) return known;
    const name = this.name();
    this.untils.set(mark, name);
    const letters = Array.from(mark);
    for (const [at, letter] of letters.entries()) {
      const next = at + 1 === letters.length ? '' : ` ${name}-${at + 1}`;
      // After another letter, the longest beginning of the mark that the text ends with.
      const others = [...new Set(letters.slice(0, at + 1))].filter((each) => each !== letter);
      const back = others.map((each) => {
        const said = letters.slice(0, at).join('') + each;
        const length = lengthOfBeginning(mark, said);
        return { each, to: length === 0 ? name : `${name}-${length}` };
      });
      const ways = back
        .filter(({ to }) => to !== name)
        .map(({ each, to }) => `${literal(each)} ${to}`);
      const excluded = [letter, ...back.filter(({ to }) => to !== name).map(({ each }) => each)];
      this.add(
        at === 0 ? name : `${name}-${at}`,
        [
          `${literal(letter)}${next}`,
          ...ways,
          `[^${excluded.map(escapeInClass).join('')}] ${name}`,
        ].join(' | '),
      );
    }
    return name;
  }

  private addNamed(rule: string): string {
    const name = this.name();
    this.add(name, rule);
    return name;
  }

  private name(): string {
    this.count += 1;
    return `a${this.count}`;
  }

  private add(name: string, rule: string): void {
    this.push(`${name} ::= ${rule}`);
  }

  private push(rules: string): void {
    this.rules.push(rules);
    this.size += rules.length;
    if (this.size > LETTERS_MAX)
      throw tooMany(`arguments whose grammar has more than ${LETTERS_MAX} letters`);
  }
}

const QUOTED_DEPTH = 16;
/** Longest bounded list. */
const ITEMS_MAX = 1000;

/** So many items as the schema of a list says. */
function repeatItems(item: string, { minItems, maxItems }: Schema): string {
  const bound = (value: unknown) =>
    typeof value === 'number' && value >= 0 && value <= ITEMS_MAX ? Math.floor(value) : null;
  const [least, most] = [bound(minItems) ?? 0, bound(maxItems)];
  if (most === 0) return '';
  const all = `${item} ("," ${item}){${Math.max(0, least - 1)},${most === null ? '' : most - 1}}`;
  return least === 0 ? `(${all})?` : all;
}

/** The length of the longest beginning of the mark that the text ends with. */
function lengthOfBeginning(mark: string, said: string): number {
  for (let length = Math.min(said.length, mark.length - 1); length > 0; length -= 1)
    if (said.endsWith(mark.slice(0, length))) return length;
  return 0;
}

function tooMany(what: string): SvcError {
  return new SvcError('capability_missing', `The engine cannot enforce ${what}.`, {
    hint: 'Leave the choice of a tool to the model, with tool_choice auto.',
    param: 'tools',
  });
}
