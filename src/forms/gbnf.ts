/**
 * Grammars of clients, in the notation of llama.cpp (GBNF). They are read here: the parser of
 * llama.cpp does not end for some texts, and aborts for other texts. It gets the rules that
 * `writeRules` spells, which have neither groups nor repetitions.
 */

/** One letter of these ranges, both ends included. */
export interface Letter {
  readonly ranges: readonly (readonly [from: number, to: number])[];
  /** Any other letter instead. */
  readonly isOther: boolean;
}
/** A letter, or a rule by its number. */
export type Element = Letter | number;
/** The ways of each rule, each a sequence. The first rule is `root`. */
export type Rules = readonly (readonly (readonly Element[])[])[];

/** Says what is wrong with a grammar, and where. */
export class GrammarError extends Error {}

/** Characters of a grammar. */
export const GRAMMAR_CHARS = 65_536;
const RULES_MAX = 4096;
const ELEMENTS_MAX = 65_536;
const DEPTH_MAX = 64;
const REPEATED_MAX = 2000;
const TOP = 0x10ffff;

/** Throws GrammarError. */
export function parseGbnf(text: string): Rules {
  if (text.length > GRAMMAR_CHARS)
    throw new GrammarError(`It has more than ${GRAMMAR_CHARS} characters.`);
  const rules = new Parser(text).parse();
  refuseLoops(rules);
  return rules.map(({ ways }) => ways);
}

interface Rule {
  name: string;
  ways: Element[][];
  isDefined: boolean;
  /** Where it is first named. */
  at: number;
}

class Parser {
  private readonly text: string;
  private readonly rules: Rule[] = [];
  private readonly numbers = new Map<string, number>();
  private at = 0;
  private elements = 0;

  constructor(text: string) {
    this.text = text;
  }

  parse(): readonly Rule[] {
    this.numberOf('root');
    for (this.space(true); this.at < this.text.length; this.space(true)) this.rule();
    for (const { name, isDefined, at } of this.rules)
      if (!isDefined) this.fail(`there is no rule ${name}`, at);
    return this.rules;
  }

  private rule(): void {
    const begin = this.at;
    const name = this.name();
    this.space(false);
    if (!this.text.startsWith('::=', this.at)) this.fail(`after the name ${name} comes ::=`);
    this.at += 3;
    this.space(true);
    const rule = this.rules[this.numberOf(name, begin)] as Rule;
    if (rule.isDefined) this.fail(`the rule ${name} is there twice`, begin);
    rule.isDefined = true;
    rule.ways = this.ways(0);
    if (this.at < this.text.length && !/[\r\n]/.test(this.letter()))
      this.fail(`${JSON.stringify(this.letter())} cannot be here`);
  }

  private ways(depth: number): Element[][] {
    if (depth > DEPTH_MAX) this.fail(`there are more than ${DEPTH_MAX} levels of parentheses`);
    const ways = [this.sequence(depth)];
    while (this.letter() === '|') {
      this.at += 1;
      this.space(true);
      ways.push(this.sequence(depth));
    }
    return ways;
  }

  private sequence(depth: number): Element[] {
    const sequence: Element[] = [];
    for (;;) {
      const part = this.part(depth);
      if (part === null) return sequence;
      this.space(depth > 0);
      let repeated = this.readRepetition(part);
      for (let next: Element[] | null = repeated; next !== null; ) {
        repeated = next;
        this.space(depth > 0);
        next = this.isRepetition() ? this.readRepetition(repeated) : null;
      }
      sequence.push(...repeated);
    }
  }

  /** Null: the sequence ends. */
  private part(depth: number): Element[] | null {
    const letter = this.letter();
    if (letter === '"') return this.readQuoted('"').map(({ code }) => letterOf(code));
    if (letter === '[') return [this.class()];
    if (letter === '.') {
      this.at += 1;
      return [{ ranges: [], isOther: true }];
    }
    if (letter === '(') {
      const begin = this.at;
      this.at += 1;
      this.space(true);
      const ways = this.ways(depth + 1);
      if (this.letter() !== ')') this.fail('this parenthesis has no end', begin);
      this.at += 1;
      return [this.addWays(ways)];
    }
    if (letter === '<' || letter === '!')
      this.fail('ids and names of tokens are not supported. Write their texts');
    if (/[*+?{]/.test(letter)) this.fail(`there is nothing before ${letter} that it could repeat`);
    const begin = this.at;
    return WORD.test(letter) ? [this.numberOf(this.name(), begin)] : null;
  }

  private isRepetition(): boolean {
    return /[*+?{]/.test(this.letter());
  }

  private readRepetition(part: Element[]): Element[] {
    if (!this.isRepetition()) return this.countElements(part);
    const begin = this.at;
    const { least, most } = this.bounds();
    if (least > most)
      this.fail(`the repetition asks for at least ${least} and at most ${most}`, begin);
    if (least > REPEATED_MAX || (Number.isFinite(most) && most > REPEATED_MAX))
      this.fail(`a part is repeated more than ${REPEATED_MAX} times`, begin);
    const unit = part.length === 1 ? (part[0] as Element) : this.addWays([part]);
    const all: Element[] = Array.from({ length: least }, () => unit);
    if (most === Number.POSITIVE_INFINITY) {
      const rest = this.rules.length;
      this.addWays([[unit, rest], []]);
      all.push(rest);
    } else {
      let rest: number | null = null;
      for (let count = least; count < most; count += 1)
        rest = this.addWays([rest === null ? [unit] : [unit, rest], []]);
      if (rest !== null) all.push(rest);
    }
    return this.countElements(all);
  }

  private bounds(): { least: number; most: number } {
    const letter = this.letter();
    this.at += 1;
    if (letter === '*') return { least: 0, most: Number.POSITIVE_INFINITY };
    if (letter === '+') return { least: 1, most: Number.POSITIVE_INFINITY };
    if (letter === '?') return { least: 0, most: 1 };
    const found = /^\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}/.exec(
      this.text.slice(this.at, this.at + 64),
    );
    if (found === null) this.fail('a repetition is {3}, {3,} or {3,5}', this.at - 1);
    const [whole = '', least, comma, most] = found as RegExpExecArray;
    this.at += whole.length;
    const from = Number(least);
    const to = most === undefined ? Number.POSITIVE_INFINITY : Number(most);
    return { least: from, most: comma === undefined ? from : to };
  }

  private class(): Letter {
    const begin = this.at;
    const isOther = this.text[this.at + 1] === '^';
    if (isOther) this.at += 1;
    const all = this.readQuoted(']');
    const ranges: [number, number][] = [];
    for (let at = 0; at < all.length; at += 1) {
      const [from, dash, to] = all.slice(at, at + 3);
      const isRange = dash?.code === DASH && !dash.isEscaped && to !== undefined;
      const range: [number, number] = [from?.code ?? 0, (isRange ? to : from)?.code ?? 0];
      if (range[0] > range[1]) this.fail('a range begins after its end', begin);
      ranges.push(range);
      if (isRange) at += 2;
    }
    if (ranges.length === 0 && !isOther) this.fail('this class has no letter', begin);
    this.count(ranges.length);
    return { ranges, isOther };
  }

  /** Letters up to the end. */
  private readQuoted(end: string): { code: number; isEscaped: boolean }[] {
    const begin = this.at;
    const all: { code: number; isEscaped: boolean }[] = [];
    this.at += 1;
    while (this.letter() !== end) {
      if (this.at >= this.text.length) this.fail('this text has no end', begin);
      const isEscaped = this.letter() === '\\';
      const code = isEscaped ? this.escape() : (this.text.codePointAt(this.at) as number);
      if (!isEscaped) this.at += code > 0xffff ? 2 : 1;
      if (code > TOP || (code >= 0xd800 && code <= 0xdfff) || (code === 0 && end === '"'))
        this.fail('this is not a letter of a text');
      all.push({ code, isEscaped });
    }
    this.at += 1;
    return all;
  }

  private escape(): number {
    const kind = this.text[this.at + 1] ?? '';
    const digits = { x: 2, u: 4, U: 8 }[kind];
    if (digits !== undefined) {
      const hex = this.text.slice(this.at + 2, this.at + 2 + digits);
      if (!/^[\da-f]+$/i.test(hex) || hex.length < digits)
        this.fail(`\\${kind} needs ${digits} hexadecimal digits`);
      this.at += 2 + digits;
      return Number.parseInt(hex, 16);
    }
    const code = { t: 9, n: 10, r: 13 }[kind] ?? ('\\"[]-'.includes(kind) ? kind.charCodeAt(0) : 0);
    if (kind === '' || code === 0)
      this.fail('the escapes are \\n \\r \\t \\\\ \\" \\[ \\] \\- \\x61 \\u0061 \\U00000061');
    this.at += 2;
    return code;
  }

  private name(): string {
    const [name] = /^[a-z\d-]{1,256}/i.exec(this.text.slice(this.at, this.at + 256)) ?? [];
    if (name === undefined) this.fail('a rule begins with a name of letters, digits and hyphens');
    this.at += (name as string).length;
    return name as string;
  }

  private numberOf(name: string, at = 0): number {
    const known = this.numbers.get(name);
    if (known !== undefined) return known;
    const number = this.rules.length;
    this.numbers.set(name, number);
    this.add({ name, ways: [], isDefined: false, at });
    return number;
  }

  private addWays(ways: Element[][]): number {
    this.add({ name: '', ways, isDefined: true, at: this.at });
    return this.rules.length - 1;
  }

  private add(rule: Rule): void {
    if (this.rules.length >= RULES_MAX)
      this.fail(`there are more than ${RULES_MAX} rules, groups and optional repetitions`);
    this.rules.push(rule);
  }

  private countElements(elements: Element[]): Element[] {
    this.count(elements.length);
    return elements;
  }

  private count(elements: number): void {
    this.elements += elements;
    if (this.elements > ELEMENTS_MAX)
      this.fail(`there are more than ${ELEMENTS_MAX} letters and parts, with their repetitions`);
  }

  private letter(): string {
    return this.text[this.at] ?? '';
  }

  /** Passes spaces and comments. */
  private space(withLines: boolean): void {
    for (;;) {
      const letter = this.letter();
      if (letter === '#')
        while (this.at < this.text.length && !/[\r\n]/.test(this.letter())) this.at += 1;
      else if (letter === ' ' || letter === '\t' || (withLines && /[\r\n]/.test(letter)))
        this.at += 1;
      else return;
    }
  }

  private fail(what: string, at = this.at): never {
    const before = this.text.slice(0, at).split(/\r\n|\r|\n/);
    const column = (before.at(-1)?.length ?? 0) + 1;
    throw new GrammarError(`Line ${before.length}, column ${column}: ${what}.`);
  }
}

const WORD = /[a-z\d-]/i;
const DASH = 0x2d;

function letterOf(code: number): Letter {
  return { ranges: [[code, code]], isOther: false };
}

/** Throws GrammarError for a rule that can come to itself before any letter, or has no text. */
function refuseLoops(rules: readonly Rule[]): void {
  const empty = findRules(rules, (way, known) => way.every((part) => isKnown(part, known)));
  const ended = findRules(rules, (way, known) =>
    way.every((part) => typeof part !== 'number' || known.has(part)),
  );
  if (!ended.has(0)) throw new GrammarError('The rule root has no text that ends.');
  const state = new Map<number, 'open' | 'done'>();
  const visit = (number: number): void => {
    if (state.get(number) === 'done') return;
    const { name, ways } = rules[number] as Rule;
    if (state.get(number) === 'open') {
      const which = name === '' ? 'A repetition of a part that may be empty' : `The rule ${name}`;
      throw new GrammarError(`${which} comes to itself before any letter.`);
    }
    state.set(number, 'open');
    for (const way of ways)
      for (const part of way) {
        if (typeof part !== 'number') break;
        visit(part);
        if (!empty.has(part)) break;
      }
    state.set(number, 'done');
  };
  for (const number of rules.keys()) visit(number);
}

function isKnown(part: Element, known: ReadonlySet<number>): boolean {
  return typeof part === 'number' && known.has(part);
}

/** The rules with a way that has a property, given the rules that are known to have it. */
function findRules(
  rules: readonly Rule[],
  has: (way: readonly Element[], known: ReadonlySet<number>) => boolean,
): ReadonlySet<number> {
  const known = new Set<number>();
  for (let before = -1; before < known.size; ) {
    before = known.size;
    // The rules of repetitions come after those that they need.
    for (const number of [...rules.keys(), ...[...rules.keys()].reverse()])
      if (!known.has(number) && rules[number]?.ways.some((way) => has(way, known)))
        known.add(number);
  }
  return known;
}

/** The same grammar without groups and repetitions, as llama.cpp reads it. */
export function writeRules(rules: Rules): string {
  const nameOf = (number: number) => `g${number}`;
  const partOf = (part: Element) => (typeof part === 'number' ? nameOf(part) : spellLetter(part));
  const lines = rules.map((ways, number) => {
    const written = ways.map((way) => (way.length === 0 ? '""' : way.map(partOf).join(' ')));
    return `${nameOf(number)} ::= ${written.join(' | ')}`;
  });
  return [`root ::= ${nameOf(0)}`, ...lines].join('\n');
}

function spellLetter({ ranges, isOther }: Letter): string {
  const hex = (code: number) =>
    code > 0xff ? String.fromCodePoint(code) : `\\x${code.toString(16).padStart(2, '0')}`;
  // llama.cpp ends each token with a zero, which is not a letter.
  const known = isOther ? ranges : ranges.map(([from, to]) => [Math.max(1, from), to] as const);
  const parts = known.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`));
  return isOther && parts.length === 0 ? '.' : `[${isOther ? '^' : ''}${parts.join('')}]`;
}
