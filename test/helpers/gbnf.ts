import * as assert from 'uvu/assert';

/** Grammars as llama.cpp reads them: which texts a grammar has, and whether it has a text. */

type Node =
  | { kind: 'text'; text: string }
  | { kind: 'class'; ranges: readonly [number, number][]; isOther: boolean }
  | { kind: 'rule'; name: string }
  | { kind: 'ways'; ways: readonly (readonly Node[])[] }
  | { kind: 'repeat'; node: Node; least: number; most: number };

export type Grammar = ReadonlyMap<string, Node>;

export function parseGrammar(text: string): Grammar {
  const rules = new Map<string, Node>();
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z][\w-]*) ::= (.*)$/s.exec(line);
    assert.ok(match, `a rule: ${line}`);
    const [, name = '', body = ''] = match as RegExpExecArray;
    assert.not.ok(rules.has(name), `the rule ${name} is defined once`);
    rules.set(name, new RuleParser(body).parse());
  }
  for (const rule of rules.values())
    visit(rule, (node) => {
      if (node.kind === 'rule') assert.ok(rules.has(node.name), `the rule ${node.name} is there`);
    });
  return rules;
}

function visit(node: Node, see: (node: Node) => void): void {
  see(node);
  if (node.kind === 'repeat') visit(node.node, see);
  if (node.kind === 'ways') for (const way of node.ways) for (const part of way) visit(part, see);
}

class RuleParser {
  private readonly letters: readonly string[];
  private at = 0;

  constructor(text: string) {
    this.letters = Array.from(text);
  }

  parse(): Node {
    const node = this.ways();
    assert.is(this.at, this.letters.length, `all of it is read: ${this.letters.join('')}`);
    return node;
  }

  private ways(): Node {
    const ways: Node[][] = [[]];
    for (;;) {
      this.space();
      const letter = this.letters[this.at];
      if (letter === undefined || letter === ')') return { kind: 'ways', ways };
      if (letter === '|') {
        this.at += 1;
        ways.push([]);
      } else ways.at(-1)?.push(this.repeated(this.part()));
    }
  }

  private part(): Node {
    const letter = this.letters[this.at] as string;
    if (letter === '"')
      return {
        kind: 'text',
        text: this.quoted('"')
          .map(([code]) => code)
          .join(''),
      };
    if (letter === '[') {
      const isOther = this.letters[this.at + 1] === '^';
      if (isOther) this.at += 1;
      const all = this.quoted(']');
      const ranges: [number, number][] = [];
      const code = (letter: string) => letter.codePointAt(0) as number;
      for (let at = 0; at < all.length; at += 1) {
        const [first, dash, last] = all.slice(at, at + 3);
        const isRange = dash?.[0] === '-' && !dash[1] && last !== undefined;
        const [from] = first as [string, boolean];
        ranges.push([code(from), code(isRange ? last[0] : from)]);
        if (isRange) at += 2;
      }
      return { kind: 'class', ranges, isOther };
    }
    if (letter === '.') {
      this.at += 1;
      return { kind: 'class', ranges: [], isOther: true };
    }
    if (letter === '(') {
      this.at += 1;
      const node = this.ways();
      assert.is(this.letters[this.at], ')');
      this.at += 1;
      return node;
    }
    let name = '';
    while (/[\w-]/.test(this.letters[this.at] ?? '')) name += this.letters[this.at++];
    assert.ok(name, `a part at ${this.letters.slice(this.at).join('')}`);
    return { kind: 'rule', name };
  }

  /** Letters up to the end, each with whether it was escaped. */
  private quoted(end: string): [letter: string, isEscaped: boolean][] {
    const all: [string, boolean][] = [];
    for (this.at += 1; this.letters[this.at] !== end; this.at += 1) {
      const letter = this.letters[this.at];
      assert.ok(letter !== undefined, 'it has an end');
      if (letter !== '\\') {
        all.push([letter as string, false]);
        continue;
      }
      this.at += 1;
      const escaped = this.letters[this.at] as string;
      if (escaped === 'x') {
        const hex = this.letters.slice(this.at + 1, this.at + 3).join('');
        all.push([String.fromCodePoint(Number.parseInt(hex, 16)), true]);
        this.at += 2;
      } else all.push([{ n: '\n', t: '\t', r: '\r' }[escaped] ?? escaped, true]);
    }
    this.at += 1;
    return all;
  }

  private repeated(node: Node): Node {
    const rest = this.letters.slice(this.at).join('');
    const match = /^(\*|\+|\?|\{(\d+)(,?)(\d*)\})/.exec(rest);
    if (match === null) return node;
    const [whole = '', , least = '0', comma, most] = match;
    this.at += whole.length;
    const bounds: Record<string, [number, number]> = {
      '*': [0, Number.POSITIVE_INFINITY],
      '+': [1, Number.POSITIVE_INFINITY],
      '?': [0, 1],
    };
    const open = most === '' ? Number.POSITIVE_INFINITY : Number(most);
    const [from, to] = bounds[whole] ?? [Number(least), comma === '' ? Number(least) : open];
    return { kind: 'repeat', node, least: from, most: to };
  }

  private space(): void {
    while (this.letters[this.at] === ' ') this.at += 1;
  }
}

/** Makes texts of the grammar. Past `depth` it takes the shortest way that it finds. */
export function randomTexts(grammar: Grammar, random: () => number, depth = 24): () => string {
  const costs = costsOf(grammar);
  const cost = (node: Node): number => costOf(node, costs);
  const pick = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T;
  const write = (node: Node, level: number): string => {
    switch (node.kind) {
      case 'text':
        return node.text;
      case 'class':
        return letterOf(node, random);
      case 'rule':
        return write(grammar.get(node.name) as Node, level + 1);
      case 'repeat': {
        const more = level > depth ? 0 : Math.floor(random() * 4);
        const count = Math.min(node.most, node.least + more);
        return Array.from({ length: count }, () => write(node.node, level + 1)).join('');
      }
      case 'ways': {
        const sum = (way: readonly Node[]) => way.reduce((all, part) => all + cost(part), 0);
        const least = Math.min(...node.ways.map(sum));
        const ways = node.ways.filter((way) =>
          level > depth ? sum(way) === least : sum(way) < Number.POSITIVE_INFINITY,
        );
        return pick(ways)
          .map((part) => write(part, level + 1))
          .join('');
      }
    }
  };
  return () => write(grammar.get('root') as Node, 0);
}

function letterOf({ ranges, isOther }: Node & { kind: 'class' }, random: () => number): string {
  const has = (code: number) => ranges.some(([from, to]) => from <= code && code <= to) !== isOther;
  if (isOther) {
    const usual = ['a', 'z', 'A', '0', ' ', '-', 'é', '漢', '🦙', '<', '/', "'"];
    const all = usual.filter((letter) => has(letter.codePointAt(0) as number));
    return all[Math.floor(random() * all.length)] ?? 'q';
  }
  const [from, to] = ranges[Math.floor(random() * ranges.length)] as [number, number];
  return String.fromCodePoint(from + Math.floor(random() * Math.min(64, to - from + 1)));
}

/** How deep the shortest text of each rule is. Infinity: it has none. */
function costsOf(grammar: Grammar): ReadonlyMap<string, number> {
  const costs = new Map([...grammar.keys()].map((name) => [name, Number.POSITIVE_INFINITY]));
  for (let isChanged = true; isChanged; ) {
    isChanged = false;
    for (const [name, node] of grammar) {
      const cost = costOf(node, costs);
      isChanged ||= cost < (costs.get(name) as number);
      costs.set(name, cost);
    }
  }
  return costs;
}

function costOf(node: Node, costs: ReadonlyMap<string, number>): number {
  switch (node.kind) {
    case 'rule':
      return 1 + (costs.get(node.name) as number);
    case 'repeat':
      return node.least === 0 ? 0 : node.least * costOf(node.node, costs);
    case 'ways':
      return Math.min(
        ...node.ways.map((way) => way.reduce((sum, part) => sum + costOf(part, costs), 0)),
      );
    default:
      return 1;
  }
}

/** Whether the whole text is one of the grammar. */
export function hasText(grammar: Grammar, text: string): boolean {
  const letters = Array.from(text);
  const memo = new Map<string, ReadonlySet<number>>();
  /** All places where a part can end that begins at one of these. */
  const ends = (node: Node, starts: ReadonlySet<number>): ReadonlySet<number> => {
    const found = new Set<number>();
    for (const start of starts) for (const end of from(node, start)) found.add(end);
    return found;
  };
  const from = (node: Node, start: number): ReadonlySet<number> => {
    switch (node.kind) {
      case 'text': {
        const all = Array.from(node.text);
        const isSame = all.every((letter, at) => letters[start + at] === letter);
        return new Set(isSame ? [start + all.length] : []);
      }
      case 'class': {
        const code = letters[start]?.codePointAt(0);
        const isIn = (at: number) => node.ranges.some(([low, high]) => low <= at && at <= high);
        return new Set(code !== undefined && isIn(code) !== node.isOther ? [start + 1] : []);
      }
      case 'rule': {
        const key = `${node.name} ${start}`;
        const known = memo.get(key);
        if (known !== undefined) return known;
        memo.set(key, new Set());
        const found = from(grammar.get(node.name) as Node, start);
        memo.set(key, found);
        return found;
      }
      case 'ways':
        return new Set(
          node.ways.flatMap((way) => [
            ...way.reduce((at, part) => ends(part, at), new Set([start]) as ReadonlySet<number>),
          ]),
        );
      case 'repeat': {
        const all = new Set(node.least === 0 ? [start] : []);
        let at: ReadonlySet<number> = new Set([start]);
        for (
          let count = 1;
          count <= node.most && at.size > 0 && count <= letters.length + 1;
          count += 1
        ) {
          at = ends(node.node, at);
          if (count >= node.least) for (const end of at) all.add(end);
        }
        return all;
      }
    }
  };
  return from(grammar.get('root') as Node, 0).has(letters.length);
}
