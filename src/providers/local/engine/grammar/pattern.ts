import { createRequire } from 'node:module';
import type { AST } from '@eslint-community/regexpp';
import { inClass, plain, quoted } from './choice.ts';

/** A range of letters, from and to included. */
type Range = readonly [from: number, to: number];

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
/** Letters that JSON writes with an escape: the quote, the backslash and the control characters. */
const ESCAPED: readonly Range[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x7f, 0x7f],
];
const SURROGATES: Range = [0xd800, 0xdfff];
/** Control characters that a model may write, and how. */
const ESCAPES: readonly (readonly [code: number, spelling: string])[] = [
  [0x22, '\\"'],
  [0x5c, '\\\\'],
  [8, '\\b'],
  [9, '\\t'],
  [10, '\\n'],
  [12, '\\f'],
  [13, '\\r'],
];

/** What the largest part of a pattern may be repeated. */
const REPEATED_MAX = 1000;

/** Thrown for a part of a pattern that no grammar says. `message` names it. */
export class UnknownPattern extends Error {}

/**
 * The grammar of all texts, with their quotes, that have this pattern somewhere. Throws
 * UnknownPattern.
 */
export function patternRule(pattern: string): string {
  // Few schemas have a pattern, and the parser is large.
  const { RegExpParser } = createRequire(import.meta.url)('@eslint-community/regexpp');
  const { alternatives }: AST.Pattern = parsed(() =>
    new RegExpParser({ ecmaVersion: 2024 }).parsePattern(pattern, 0, pattern.length, {
      unicode: true,
    }),
  );
  const ways = alternatives.map(({ elements }) => {
    const [first, last] = [elements[0], elements.at(-1)];
    const isStart = first?.type === 'Assertion' && first.kind === 'start';
    const isEnd = last?.type === 'Assertion' && last.kind === 'end';
    const inner = elements.slice(isStart ? 1 : 0, isEnd ? -1 : undefined);
    const [before, after] = [isStart ? '' : 'letter*', isEnd ? '' : 'letter*'];
    return [before, sequence(inner), after].filter((part) => part !== '').join(' ') || '""';
  });
  return `("\\"" (${ways.join(' | ')}) "\\"")`;
}

function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new UnknownPattern((cause as Error).message, { cause });
  }
}

function sequence(elements: readonly AST.Element[]): string {
  return elements.map(element).join(' ');
}

function alternatives(all: readonly AST.Alternative[]): string {
  return `(${all.map(({ elements }) => sequence(elements) || '""').join(' | ')})`;
}

function element(node: AST.Element): string {
  switch (node.type) {
    case 'Character':
      return letters([[node.value, node.value]]);
    case 'CharacterSet':
    case 'CharacterClass':
      return letters(rangesOf(node));
    case 'CapturingGroup':
    case 'Group':
      return alternatives(node.alternatives);
    case 'Quantifier':
      return quantifier(node);
    default:
      throw new UnknownPattern(`the part ${node.raw}`);
  }
}

/** A lazy one has the same texts. */
function quantifier({ element: repeated, min, max, raw }: AST.Quantifier): string {
  if (Math.max(min, Number.isFinite(max) ? max : 0) > REPEATED_MAX)
    throw new UnknownPattern(`more than ${REPEATED_MAX} repetitions in ${raw}`);
  const part = `(${element(repeated as AST.Element)})`;
  if (min === 0 && max === Number.POSITIVE_INFINITY) return `${part}*`;
  return `${part}{${min},${Number.isFinite(max) ? max : ''}}`;
}

type SetNode = AST.CharacterClass['elements'][number] | AST.CharacterClass | AST.CharacterSet;

function rangesOf(node: SetNode): readonly Range[] {
  switch (node.type) {
    case 'Character':
      return [[node.value, node.value]];
    case 'CharacterClassRange':
      return [[node.min.value, node.max.value]];
    case 'CharacterClass': {
      const all = (node.elements as readonly SetNode[]).flatMap(rangesOf);
      return node.negate ? without(all) : all;
    }
    case 'CharacterSet': {
      if (node.kind === 'any') return without(LINE_ENDS);
      const known = { digit: DIGITS, word: WORD, space: SPACES, property: null }[node.kind];
      if (known === null) throw new UnknownPattern(`the part ${node.raw}`);
      return node.negate ? without(known) : known;
    }
    default:
      throw new UnknownPattern(`the part ${node.raw}`);
  }
}

/** All letters but these. */
function without(ranges: readonly Range[]): readonly Range[] {
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

/** One letter of these, as JSON spells it. */
function letters(ranges: readonly Range[]): string {
  const has = (code: number) => ranges.some(([from, to]) => from <= code && code <= to);
  const plainOnes = intersection(ranges, without([...ESCAPED, SURROGATES]));
  const ways = ESCAPES.filter(([code]) => has(code)).map(([, spelling]) => quoted(spelling));
  if (plainOnes.length > 0) ways.unshift(classOf(plainOnes));
  if (ways.length === 0) throw new UnknownPattern('a control character');
  return ways.length === 1 ? (ways[0] as string) : `(${ways.join(' | ')})`;
}

function intersection(some: readonly Range[], others: readonly Range[]): readonly Range[] {
  return some
    .flatMap(([from, to]) =>
      others.map(([first, last]): Range => [Math.max(from, first), Math.min(to, last)]),
    )
    .filter(([from, to]) => from <= to);
}

function classOf(ranges: readonly Range[]): string {
  const whole = ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const all = without([...ESCAPED, SURROGATES]).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  if (whole >= all) return plain('');
  const letter = (code: number) => inClass(String.fromCodePoint(code));
  const parts = ranges.map(([from, to]) =>
    from === to ? letter(from) : `${letter(from)}-${letter(to)}`,
  );
  return `[${parts.join('')}]`;
}
