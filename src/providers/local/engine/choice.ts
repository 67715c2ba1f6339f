/** Rules of a grammar for one of some texts. */
export interface Choice {
  /** The choice in other rules. */
  readonly rule: string;
  readonly rules: readonly string[];
  /** How many texts can go on at one place, at most. */
  readonly branches: number;
}

/**
 * Texts that begin alike share their beginning. So few rules are open at one time: llama.cpp tests
 * each token of the vocabulary against each open rule. `name` begins the names of the rules.
 */
export function choiceOf(name: string, texts: readonly string[]): Choice {
  const all = [...new Set(texts)].sort().map((text) => Array.from(text));
  const rules: string[] = [];
  let branches = 1;

  /** `same`: sorted texts that are equal up to `from`. */
  const after = (same: readonly (readonly string[])[], from: number): string => {
    const [first = [], last = []] = [same[0], same.at(-1)];
    if (same.length === 1) return quoted(first.slice(from));
    let at = from;
    while (at < first.length && first[at] === last[at]) at += 1;
    const mayEnd = first.length === at;
    const groups = Map.groupBy(mayEnd ? same.slice(1) : same, (text) => text[at]);
    branches = Math.max(branches, groups.size);
    const rule = `${name}-${rules.push('')}`;
    const place = rules.length - 1;
    const ways = [...groups.values()].map((group) => after(group, at));
    rules[place] = `${rule} ::= ${ways.join(' | ')}`;
    const rest = mayEnd ? `${rule}?` : rule;
    return at === from ? rest : `${quoted(first.slice(from, at))} ${rest}`;
  };
  return { rule: `(${after(all, 0)})`, rules, branches };
}

function quoted(text: readonly string[]): string {
  return `"${text.join('').replace(/["\\]/g, '\\$&')}"`;
}
