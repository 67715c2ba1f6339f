import type { AST } from '@eslint-community/regexpp';

/** A range of letters, from and to included. */
export type Range = readonly [from: number, to: number];

const TOP = 0x10ffff;
const DIGITS: readonly Range[] = [[0x30, 0x39]];
const WORD: readonly Range[] = [...DIGITS, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
/** White space, by its code points. */
const SPACES: readonly Range[] = [
  [9, 13],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: readonly Range[] = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
];
/** Thrown for a part of a pattern that no grammar says. `message` names it. */
export class UnknownPattern extends Error {}

type SetNode = AST.CharacterClass['elements'][number] | AST.CharacterClass | AST.CharacterSet;

export function rangesOf(node: SetNode): readonly Range[] {
  switch (node.type) {
    case 'Character':
      return [[node.value, node.value]];
    case 'CharacterClassRange':
      return [[node.min.value, node.max.value]];
    case 'CharacterClass': {
      const all = (node.elements as readonly SetNode[]).flatMap(rangesOf);
      return node.negate ? complementOf(all) : all;
    }
    case 'CharacterSet': {
      if (node.kind === 'any') return complementOf(LINE_ENDS);
      if (node.kind === 'property') return propertyRanges(node.raw);
      const known = { digit: DIGITS, word: WORD, space: SPACES }[node.kind];
      return node.negate ? complementOf(known) : known;
    }
    default:
      throw new UnknownPattern(`the part ${node.raw}`);
  }
}

const properties = new Map<string, readonly Range[]>();
const PROPERTIES_MAX = 16;

/** The letters of a property such as `\\p{L}`, as the regular expressions of JavaScript have it. */
function propertyRanges(raw: string): readonly Range[] {
  const known = properties.get(raw);
  if (known !== undefined) return known;
  const has = new RegExp(raw, 'u');
  const ranges: Range[] = [];
  let from = -1;
  for (let code = 0; code <= TOP + 1; code += 1) {
    const isIn = code <= TOP && has.test(String.fromCodePoint(code));
    if (isIn && from < 0) from = code;
    if (!isIn && from >= 0) {
      ranges.push([from, code - 1]);
      from = -1;
    }
  }
  if (properties.size >= PROPERTIES_MAX) properties.clear();
  properties.set(raw, ranges);
  return ranges;
}

/** All letters but these. */
export function complementOf(ranges: readonly Range[]): readonly Range[] {
  const sorted = [...ranges].sort(([one], [other]) => one - other);
  const rest: Range[] = [];
  let from = 0;
  for (const [first, last] of sorted) {
    if (first > from) rest.push([from, first - 1]);
    from = Math.max(from, last + 1);
  }
  if (from <= TOP) rest.push([from, TOP]);
  return rest;
}

export function intersection(some: readonly Range[], others: readonly Range[]): readonly Range[] {
  return some
    .flatMap(([from, to]) =>
      others.map(([first, last]): Range => [Math.max(from, first), Math.min(to, last)]),
    )
    .filter(([from, to]) => from <= to);
}
