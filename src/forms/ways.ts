import type { Element, Letter, Rules } from './gbnf.ts';

/** Thrown where a grammar has more ways to continue than may be followed. */
export class TooManyWays extends Error {}

/** The text that is left to write: the parts of a rule from one of them on, and then the rest. */
interface Rest {
  readonly way: readonly Element[];
  readonly at: number;
  readonly then: Rest | null;
}

/**
 * The ways in which a text can continue in a grammar. llama.cpp follows the same ones, and looks at
 * each for every token. So an ambiguous grammar, in which they double with each letter, is noticed
 * here.
 */
export class Ways {
  private readonly rules: Rules;
  private readonly most: number;
  /** Each begins with a letter. Null: the text is whole. */
  private open: readonly (Rest | null)[];
  private readonly ids = new Map<Rest | null, number>();

  /** Throws TooManyWays. */
  constructor(rules: Rules, most: number) {
    this.rules = rules;
    this.most = most;
    this.open = this.openRules((rules[0] ?? []).map((way) => rest(way, 0, null)));
  }

  /** Whether the text may end. */
  get mayEnd(): boolean {
    return this.open.includes(null);
  }

  /** How many there are. 0: the written letters do not begin a text. */
  get count(): number {
    return this.open.length;
  }

  /** Throws TooManyWays. */
  take(text: string): void {
    for (const letter of text) {
      const code = letter.codePointAt(0) as number;
      const next = this.open.flatMap((each) => {
        if (each === null || !hasLetter(each.way[each.at] as Letter, code)) return [];
        return [rest(each.way, each.at + 1, each.then)];
      });
      this.ids.clear();
      if (this.known.size > KNOWN_MAX) this.known.clear();
      this.open = this.openRules(next);
    }
  }

  /** What begins with a letter after some rules are opened, each once. */
  private openRules(begun: readonly (Rest | null)[]): readonly (Rest | null)[] {
    const seen = new Set<string>();
    const found: (Rest | null)[] = [];
    const waiting = [...begun];
    for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
      const key = this.keyOf(each);
      if (seen.has(key)) continue;
      seen.add(key);
      if (seen.size > this.most * STEPS) throw new TooManyWays();
      const part = each?.way[each.at];
      if (each === null || typeof part !== 'number') found.push(each);
      else {
        const after = rest(each.way, each.at + 1, each.then);
        for (const way of this.rules[part] ?? []) waiting.push(rest(way, 0, after));
      }
      if (found.length > this.most) throw new TooManyWays();
    }
    return found;
  }

  private readonly known = new Map<string, number>();
  private readonly waysById = new Map<readonly Element[], number>();

  /** The same key for the same rest, by whatever way it was reached. */
  private keyOf(each: Rest | null): string {
    return String(this.idOf(each));
  }

  private idOf(first: Rest | null): number {
    const chain: Rest[] = [];
    let id = 0;
    for (let each = first; each !== null; each = each.then) {
      const known = this.ids.get(each);
      if (known !== undefined) {
        id = known;
        break;
      }
      chain.push(each);
    }
    for (const each of chain.reverse()) {
      const key = `${this.wayId(each.way)}.${each.at}.${id}`;
      const known = this.known.get(key) ?? this.known.size + 1;
      this.known.set(key, known);
      this.ids.set(each, known);
      id = known;
    }
    return id;
  }

  private wayId(way: readonly Element[]): number {
    const known = this.waysById.get(way) ?? this.waysById.size;
    this.waysById.set(way, known);
    return known;
  }
}

const KNOWN_MAX = 65_536;
/** Rules that are opened for each way, at most. */
const STEPS = 64;

/**
 * Without parts it is the rest that comes after. A rule that ends with itself then needs no more
 * room.
 */
function rest(way: readonly Element[], at: number, then: Rest | null): Rest | null {
  return at >= way.length ? then : { way, at, then };
}

function hasLetter({ ranges, isOther }: Letter, code: number): boolean {
  return ranges.some(([from, to]) => from <= code && code <= to) !== isOther;
}
