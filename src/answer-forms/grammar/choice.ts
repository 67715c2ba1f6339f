/** Rules of a grammar for one of some texts. */
export interface Choice {
  /** The choice in other rules. */
  readonly rule: string;
  readonly rules: readonly string[];
  /** How many texts can continue at one place, at most. */
  readonly branches: number;
}

/** Two texts that are equal have the same `next`. */
export interface Text {
  readonly text: string;
  /** What follows this text in the grammar. Empty: nothing. */
  readonly next: string;
}

/**
 * Texts that begin alike share their beginning. So few rules are open at one time: llama.cpp tests
 * each token of the vocabulary against each open rule. `name` begins the names of the rules.
 */
export function choiceOf(name: string, texts: readonly Text[]): Choice {
  const nexts = new Map(texts.map(({ text, next }) => [text, next]));
  const all = [...nexts.keys()].sort().map((text) => Array.from(text));
  const rules: string[] = [];
  let branches = 1;

  const end = (text: readonly string[]) => nexts.get(text.join('')) ?? '';
  /** `same`: sorted texts that are equal up to `from`. */
  const ruleAfter = (same: readonly (readonly string[])[], from: number): string => {
    const [first = [], last = []] = [same[0], same.at(-1)];
    if (same.length === 1) return sequence(quoteText(first.slice(from)), end(first));
    let at = from;
    while (at < first.length && first[at] === last[at]) at += 1;
    const mayEnd = first.length === at;
    const groups = Map.groupBy(mayEnd ? same.slice(1) : same, (text) => text[at]);
    branches = Math.max(branches, groups.size);
    const rule = `${name}-${rules.push('')}`;
    const place = rules.length - 1;
    const ways = [...groups.values()].map((group) => ruleAfter(group, at));
    if (mayEnd) ways.push(end(first));
    rules[place] = `${rule} ::= ${ways.join(' | ')}`;
    return sequence(quoteText(first.slice(from, at)), rule);
  };
  return { rule: `(${ruleAfter(all, 0)})`, rules, branches };
}

/** The choices of one grammar, each between fixed values. Each is built once. */
export class Choices {
  private readonly known = new Map<readonly string[], Choice>();

  of(texts: readonly string[]): Choice {
    const known = this.known.get(texts);
    if (known !== undefined) return known;
    const choice = choiceOf(
      `v${this.known.size}`,
      texts.map((text) => ({ text, next: '' })),
    );
    this.known.set(texts, choice);
    return choice;
  }
}

/**
 * A text that differs from all of these, from inside its quotes to the closing one. It has no
 * escapes, which could spell one of them.
 */
export function otherThan(name: string, texts: readonly string[]): Pick<Choice, 'rule' | 'rules'> {
  const rules: string[] = [];
  const ruleAfter = (all: readonly (readonly string[])[], at: number): string => {
    const rule = `${name}-${rules.push('')}`;
    const place = rules.length - 1;
    const isOne = all.some((text) => text.length === at);
    const groups = Map.groupBy(
      all.filter((text) => text.length > at),
      (text) => text[at] as string,
    );
    const other = [...groups.keys()].map(escapeInClass).join('');
    const ways = [`${plainLetter(other)} ${plainLetter('')}* "\\""`];
    for (const [letter, group] of groups)
      ways.push(`${quoteText([letter])} ${ruleAfter(group, at + 1)}`);
    if (!isOne) ways.push('"\\""');
    rules[place] = `${rule} ::= ${ways.join(' | ')}`;
    return rule;
  };
  const writable = texts.filter((text) => !/["\\\p{Cc}]/u.test(text));
  return {
    rule: ruleAfter(
      [...new Set(writable)].map((text) => Array.from(text)),
      0,
    ),
    rules,
  };
}

/** One letter of a JSON text that needs no escape, and is not in `without`. */
export function plainLetter(without: string): string {
  return `[^"\\\\\\x7F\\x00-\\x1F${without}]`;
}

/** A letter within brackets. */
export function escapeInClass(letter: string): string {
  return /[[\]\\^-]|\p{Cc}/u.test(letter) ? hexOf(letter) : letter;
}

function sequence(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '' && part !== '""').join(' ') || '""';
}

/** A text as a grammar spells it. */
export function quoteText(text: string | readonly string[]): string {
  const spelled = Array.from(text)
    .join('')
    .replace(/["\\]/g, '\\$&')
    .replace(/\p{Cc}/gu, hexOf);
  return `"${spelled}"`;
}

function hexOf(letter: string): string {
  return `\\x${letter.charCodeAt(0).toString(16).padStart(2, '0')}`;
}
