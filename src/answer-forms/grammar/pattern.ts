import { createRequire } from 'node:module';
import type { AST } from '@eslint-community/regexpp';
import { BRANCHES_MAX } from './branches.ts';
import { escapeInClass, plainLetter, quoteText } from './choice.ts';
import { complementOf, intersection, type Range, rangesOf, UnknownPattern } from './ranges.ts';

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

/** How often the largest part of a pattern may be repeated. */
const REPEATED_MAX = 1000;

/** A rule, and the part of the pattern that it does not say. Null: it has no other texts. */
export interface PatternRule {
  rule: string;
  unsaid: string | null;
}

/**
 * The grammar of all texts, with their quotes, that have this pattern somewhere. What looks ahead
 * or back is left out and named. Throws UnknownPattern.
 */
export function patternRule(pattern: string): PatternRule {
  return ruleOf(pattern, IN_JSON);
}

/** The grammar of all texts that a regular expression describes as a whole, as they are. */
export function textRule(pattern: string): PatternRule {
  return ruleOf(pattern, AS_IT_IS);
}

/** How the letters of a pattern are spelled in the grammar. */
interface Spelling {
  letter(ranges: readonly Range[]): string;
  /** Any letters, around a pattern that may be anywhere. Empty: it is the whole text. */
  any: string;
  quote: string;
}

function ruleOf(pattern: string, spelling: Spelling): PatternRule {
  // Few schemas have a pattern, and the parser is large.
  const { RegExpParser } = createRequire(import.meta.url)('@eslint-community/regexpp');
  const { alternatives }: AST.Pattern = tryParse(() =>
    new RegExpParser({ ecmaVersion: 2024 }).parsePattern(pattern, 0, pattern.length, {
      unicode: true,
    }),
  );
  const unsaid: string[] = [];
  const ways = alternatives.map(({ elements: all }) => {
    const elements = all.filter((each) => !isLook(each));
    unsaid.push(...all.filter(isLook).map(({ raw }) => raw));
    const [first, last] = [elements[0], elements.at(-1)];
    const isStart = first?.type === 'Assertion' && first.kind === 'start';
    const isEnd = last?.type === 'Assertion' && last.kind === 'end';
    const inner = elements.slice(isStart ? 1 : 0, isEnd ? -1 : undefined);
    const readings = readingsOf(inner, isStart || spelling.any === '');
    if (readings > BRANCHES_MAX)
      throw new UnknownPattern(
        `its repetitions can be read in ${readings > 1e6 ? 'over a million' : readings} ways`,
      );
    const [before, after] = [isStart ? '' : spelling.any, isEnd ? '' : spelling.any];
    return (
      [before, sequence(inner, spelling), after].filter((part) => part !== '').join(' ') || '""'
    );
  });
  const { quote } = spelling;
  const rule = `(${quote} (${ways.join(' | ')}) ${quote})`;
  return { rule, unsaid: unsaid.length === 0 ? null : `the part ${unsaid[0]}` };
}

function isLook(node: AST.Element): boolean {
  return node.type === 'Assertion' && node.kind !== 'start' && node.kind !== 'end';
}

function tryParse<T>(parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new UnknownPattern((cause as Error).message, { cause });
  }
}

function sequence(elements: readonly AST.Element[], spelling: Spelling): string {
  return elements.map((each) => element(each, spelling)).join(' ');
}

function alternatives(all: readonly AST.Alternative[], spelling: Spelling): string {
  return `(${all.map(({ elements }) => sequence(elements, spelling) || '""').join(' | ')})`;
}

function element(node: AST.Element, spelling: Spelling): string {
  switch (node.type) {
    case 'Character':
      return spelling.letter([[node.value, node.value]]);
    case 'CharacterSet':
    case 'CharacterClass':
      return spelling.letter(rangesOf(node));
    case 'CapturingGroup':
    case 'Group':
      return alternatives(node.alternatives, spelling);
    case 'Quantifier':
      return quantifier(node, spelling);
    default:
      throw new UnknownPattern(`the part ${node.raw}`);
  }
}

/** A lazy one has the same texts. */
function quantifier(node: AST.Quantifier, spelling: Spelling): string {
  const { element: repeated, min, max, raw } = node;
  if (Math.max(min, Number.isFinite(max) ? max : 0) > REPEATED_MAX)
    throw new UnknownPattern(`more than ${REPEATED_MAX} repetitions in ${raw}`);
  const part = `(${element(repeated as AST.Element, spelling)})`;
  if (min === 0 && max === Number.POSITIVE_INFINITY) return `${part}*`;
  return `${part}{${min},${Number.isFinite(max) ? max : ''}}`;
}

/** One letter of these, as JSON spells it. */
function letters(ranges: readonly Range[]): string {
  const has = (code: number) => ranges.some(([from, to]) => from <= code && code <= to);
  const plainOnes = intersection(ranges, complementOf([...ESCAPED, SURROGATES]));
  const ways = ESCAPES.filter(([code]) => has(code)).map(([, spelling]) => quoteText(spelling));
  if (plainOnes.length > 0) ways.unshift(classOf(plainOnes));
  if (ways.length === 0) throw new UnknownPattern('a control character');
  return ways.length === 1 ? (ways[0] as string) : `(${ways.join(' | ')})`;
}

function classOf(ranges: readonly Range[]): string {
  const whole = ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const all = complementOf([...ESCAPED, SURROGATES]).reduce(
    (sum, [from, to]) => sum + to - from + 1,
    0,
  );
  return whole >= all ? plainLetter('') : bracketRule(ranges);
}

function bracketRule(ranges: readonly Range[]): string {
  const letter = (code: number) => escapeInClass(String.fromCodePoint(code));
  const parts = ranges.map(([from, to]) =>
    from === to ? letter(from) : `${letter(from)}-${letter(to)}`,
  );
  return `[${parts.join('')}]`;
}

const IN_JSON: Spelling = { letter: letters, any: 'letter*', quote: '"\\""' };
const AS_IT_IS: Spelling = {
  letter(ranges) {
    const known = intersection(ranges, complementOf([SURROGATES, [0, 0]]));
    if (known.length === 0) throw new UnknownPattern('a class without a letter');
    return bracketRule(known);
  },
  any: '',
  quote: '',
};

/** At how many places of a part one text can be, and what decides it. */
interface Part {
  isOptional: boolean;
  /** Letters that it begins with. */
  first: readonly Range[];
  /** Letters that may continue it where it may also end. */
  more: readonly Range[];
  /** Its places, with each repetition apart. */
  size: number;
  /** The most places that one text can be at. */
  readings: number;
}

const NOTHING: Part = { isOptional: true, first: [], more: [], size: 0, readings: 1 };
const ANY: readonly Range[] = [[0, 0x10ffff]];
/** Any letters: the beginning of a pattern without `^`. */
const ANYTHING: Part = { isOptional: true, first: ANY, more: ANY, size: 1, readings: 1 };

/**
 * The most places of a pattern that one text can be at: 1 where each letter says how the text
 * continues, and 81 for `(a{1,9}){1,9}`. llama.cpp keeps each of them, and looks at all for each
 * token.
 */
function readingsOf(elements: readonly AST.Element[], isAnchored: boolean): number {
  const parts = elements.map(partOf);
  return partSequence(isAnchored ? parts : [ANYTHING, ...parts]).readings;
}

function partOf(node: AST.Element): Part {
  switch (node.type) {
    case 'Character':
    case 'CharacterSet':
    case 'CharacterClass':
      return { isOptional: false, first: rangesOf(node), more: [], size: 1, readings: 1 };
    case 'CapturingGroup':
    case 'Group':
      return node.alternatives
        .map(({ elements }) => partSequence(elements.map(partOf)))
        .reduce((one, other) => ({
          isOptional: one.isOptional || other.isOptional,
          first: [...one.first, ...other.first],
          more: [...one.more, ...other.more],
          size: one.size + other.size,
          readings: isOverlapping(one.first, other.first)
            ? one.size + other.size
            : Math.max(one.readings, other.readings),
        }));
    case 'Quantifier':
      return repeatPart(partOf(node.element as AST.Element), node);
    default:
      return NOTHING;
  }
}

function partSequence(parts: readonly Part[]): Part {
  return parts.reduce((one, other) => {
    const isOpen = isOverlapping(one.more, other.first) || one.readings > 1;
    return {
      isOptional: one.isOptional && other.isOptional,
      first: one.isOptional ? [...one.first, ...other.first] : one.first,
      more: other.isOptional ? [...one.more, ...other.more] : other.more,
      size: one.size + other.size,
      readings: isOpen ? one.readings + other.size : Math.max(one.readings, other.readings),
    };
  }, NOTHING);
}

function repeatPart(part: Part, { min, max }: Pick<AST.Quantifier, 'min' | 'max'>): Part {
  const copies = Number.isFinite(max) ? max : min + 1;
  const isOpen = part.isOptional || part.readings > 1 || isOverlapping(part.more, part.first);
  const size = part.size * copies;
  return {
    isOptional: part.isOptional || min === 0,
    first: part.first,
    more: min === max ? part.more : [...part.more, ...part.first],
    size,
    readings: isOpen && copies > 1 ? size : part.readings,
  };
}

function isOverlapping(some: readonly Range[], others: readonly Range[]): boolean {
  return intersection(some, others).length > 0;
}
