import { SvcError } from '../../errors.ts';
import { type Choices, choiceOf, otherThan, plainLetter } from './choice.ts';
import { FORMAT_PARTS } from './format.ts';
import {
  type ArrayShape,
  findEnding,
  mostItems,
  type NamedShapes,
  type ObjectShape,
  type Property,
  type Shape,
} from './shape.ts';

/** Letters of one grammar: llama.cpp keeps each as a number, and looks at many for each token. */
const GRAMMAR_MAX = 262_144;

/** Rules that other rules name. They are written if a grammar needs them. */
const COMMON: Readonly<Record<string, string>> = {
  // A model may indent. Without a bound, a weak one writes spaces only.
  space: '| " " | "\\n" [ \\t]{0,20}',
  comma: '"," space',
  colon: '":" [ ]?',
  letter: `${plainLetter('')} | "\\\\" (["\\\\/bfnrt] | "u" unit)`,
  // Half of a surrogate pair would be no text, and a whole one needs no escape.
  unit: '[0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}',
  string: '"\\"" letter* "\\""',
  integer: '"-"? ("0" | [1-9] [0-9]{0,14})',
  number: '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?',
  boolean: '"true" | "false"',
  null: '"null"',
  any: 'string | number | boolean | null | any-array | any-object',
  'any-array': '"[" space (any (comma any)*)? space "]"',
  'any-object': '"{" space (any-pair (comma any-pair)*)? space "}"',
  'any-pair': 'string colon any',
  ...FORMAT_PARTS,
};

/**
 * Writes the rules of a grammar. The first one is `root`. Throws capability_missing if the shape
 * has no value, or its grammar is too large.
 */
export function writeGrammar(root: Shape, named: NamedShapes, choices: Choices): string {
  const ends = findEnding(named);
  if (!ends(root)) throw tooMuch('a schema that no finite value satisfies');
  const writer = new Writer(named, ends, choices);
  return writer.write(root);
}

class Writer {
  private readonly named: NamedShapes;
  private readonly ends: (shape: Shape) => boolean;
  private readonly choices: Choices;
  private readonly written = new Set<readonly string[]>();
  private readonly references = new Map<string, string>();
  private readonly rules: string[] = [];
  private size = 0;
  private count = 0;

  constructor(named: NamedShapes, ends: (shape: Shape) => boolean, choices: Choices) {
    this.named = named;
    this.ends = ends;
    this.choices = choices;
  }

  write(root: Shape): string {
    const body = this.expression(root);
    const own = [`root ::= ${body}`, ...this.rules].join('\n');
    return [own, ...commonFor(own)].join('\n');
  }

  private expression(shape: Shape): string {
    switch (shape.kind) {
      case 'any':
        return 'any';
      case 'never':
        throw new SvcError('engine_failed');
      case 'terminal':
        return shape.rule;
      case 'values':
        return this.values(shape.texts);
      case 'reference':
        return this.reference(shape.to);
      case 'ways':
        return `(${shape.ways
          .filter(this.ends)
          .map((way) => this.expression(way))
          .join(' | ')})`;
      case 'object':
        return this.object(shape);
      case 'array':
        return this.array(shape);
    }
  }

  private values(texts: readonly string[]): string {
    const { rule, rules } = this.choices.of(texts);
    if (!this.written.has(texts)) this.addAll(rules);
    this.written.add(texts);
    return rule;
  }

  private reference(to: string): string {
    const known = this.references.get(to);
    if (known !== undefined) return known;
    const name = this.name();
    this.references.set(to, name);
    this.add(name, this.expression(this.named.get(to) as Shape));
    return name;
  }

  /** Properties come in their order. Those that are not required may be left out. */
  private object({ properties, others, nameRule, isFilled = false }: ObjectShape): string {
    const all = properties.filter(({ shape }) => this.ends(shape));
    const names = all.map(() => this.name());
    const other =
      others === null || !this.ends(others)
        ? null
        : this.reuseRule(
            this.writeOther(
              properties.map(({ name }) => name),
              nameRule ?? 'string',
              others,
            ),
          );
    const more = other === null ? '' : `(comma ${other})*`;
    /** Which properties can be the next one, from this one on. */
    const next = (from: number) => {
      const required = all.findIndex(({ isRequired }, at) => at >= from && isRequired);
      const to = required < 0 ? all.length : required + 1;
      const texts = all
        .slice(from, to)
        .map(({ name }, at) => ({
          text: `${JSON.stringify(name).slice(1)}`,
          next: names[from + at] as string,
        }));
      return { mayEnd: required < 0, key: texts.length > 0 ? `"\\"" ${this.choice(texts)}` : null };
    };
    const rest = all.map((_, at) => {
      const { mayEnd, key } = next(at + 1);
      if (key === null) return more;
      const name = this.name();
      this.add(name, mayEnd ? `comma ${key} | ${more || '""'}` : `comma ${key}`);
      return name;
    });
    for (const [at, { shape }] of (all as readonly Property[]).entries())
      this.add(names[at] as string, `colon ${this.expression(shape)} ${rest[at]}`);
    const { mayEnd, key } = next(0);
    const none = mayEnd && !isFilled ? '""' : null;
    const ways = [key, mayEnd && other !== null ? `${other} ${more}` : null, none];
    return `"{" space (${ways.filter((way) => way !== null).join(' | ')}) space "}"`;
  }

  /** A property with a name outside this list. */
  private writeOther(names: readonly string[], nameRule: string, shape: Shape): string {
    const value = this.expression(shape);
    if (names.length === 0) return `${nameRule} colon ${value}`;
    const { rule, rules } = otherThan(this.name(), names);
    this.addAll(rules);
    return `"\\"" ${rule} colon ${value}`;
  }

  private array(shape: ArrayShape): string {
    const most = mostItems(shape, this.ends);
    const first = shape.first.slice(0, most);
    const { least } = shape;
    const isMore = most > first.length;
    const item = isMore ? this.reuseRule(this.expression(shape.rest)) : '';
    const [from, to] = [Math.max(0, least - first.length), most - first.length];
    if (first.length === 0) {
      if (!isMore) return '"[" space "]"';
      const items = `${item} ${repeatExpression(`(comma ${item})`, Math.max(0, from - 1), to - 1)}`;
      return `"[" space ${from === 0 ? `(${items})?` : items} space "]"`;
    }
    let tail = isMore ? repeatExpression(`(comma ${item})`, from, to) : '';
    for (let at = first.length - 1; at > 0; at -= 1) {
      const name = this.name();
      const items = `comma ${this.expression(first[at] as Shape)} ${tail}`;
      this.add(name, at < least ? items : `${items} | ""`);
      tail = name;
    }
    const items = `${this.expression(first[0] as Shape)} ${tail}`;
    return `"[" space ${least > 0 ? items : `(${items})?`} space "]"`;
  }

  private choice(texts: Parameters<typeof choiceOf>[1]): string {
    const { rule, rules } = choiceOf(this.name(), texts);
    this.addAll(rules);
    return rule;
  }

  private name(): string {
    this.count += 1;
    return `r${this.count}`;
  }

  /** The name of an expression that is written more than once, else each level doubles its text. */
  private reuseRule(expression: string): string {
    if (/^[a-z][\w-]*$/.test(expression)) return expression;
    const name = this.name();
    this.add(name, expression);
    return name;
  }

  private add(name: string, body: string): void {
    this.addAll([`${name} ::= ${body}`]);
  }

  private addAll(rules: readonly string[]): void {
    for (const rule of rules) this.size += rule.length;
    if (this.size > GRAMMAR_MAX)
      throw tooMuch(`a schema whose grammar has more than ${GRAMMAR_MAX} letters`);
    this.rules.push(...rules);
  }
}

/** The common rules that a grammar names, and those that these name. */
function commonFor(text: string): readonly string[] {
  const needed = new Set<string>();
  const look = (body: string) => {
    const names = body
      .replace(/"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]/g, ' ')
      .match(/[a-z][\w-]*/g);
    for (const name of names ?? []) {
      const common = COMMON[name];
      if (common === undefined || needed.has(name)) continue;
      needed.add(name);
      look(common);
    }
  };
  look(text);
  return [...needed].map((name) => `${name} ::= ${COMMON[name]}`);
}

function repeatExpression(expression: string, least: number, most: number): string {
  if (most <= 0) return '';
  if (most === Number.POSITIVE_INFINITY)
    return least === 0 ? `${expression}*` : `${expression}{${least},}`;
  return `${expression}{${least},${most}}`;
}

/** The engine cannot enforce this part of a schema. */
export function tooMuch(what: string, at = 'the schema'): SvcError {
  return new SvcError(
    'capability_missing',
    `The engine cannot enforce ${what} at ${at.slice(0, 200)}.`,
    { hint: 'Leave it out of the schema, or check the answer yourself.', param: 'response_format' },
  );
}
