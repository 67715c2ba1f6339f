import type { AST } from '@eslint-community/regexpp';
import { intersection, type Range, rangesOf } from './ranges.ts';

/** At how many places of a part one text can be, and what decides it. */
interface Part {
  isOptional: boolean;
  /** Letters that it begins with. */
  first: readonly Range[];
  /** Letters that may continue it where it may also end. */
  more: readonly Range[];
  /** Its places, with each repetition apart. */
  size: number;
  /** The most of them that one text can be at. */
  readings: number;
}

const NOTHING: Part = { isOptional: true, first: [], more: [], size: 0, readings: 1 };
const ANY: readonly Range[] = [[0, 0x10ffff]];
/** Any letters: what a pattern without `^` begins with. */
const ANYTHING: Part = { isOptional: true, first: ANY, more: ANY, size: 1, readings: 1 };

/**
 * The most places of a pattern that one text can be at: 1 where each letter says how it goes on,
 * and 81 for `(a{1,9}){1,9}`. llama.cpp keeps each of them, and looks at all for each token.
 */
export function readingsOf(elements: readonly AST.Element[], isAnchored: boolean): number {
  const parts = elements.map(partOf);
  return sequence(isAnchored ? parts : [ANYTHING, ...parts]).readings;
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
        .map(({ elements }) => sequence(elements.map(partOf)))
        .reduce((one, other) => ({
          isOptional: one.isOptional || other.isOptional,
          first: [...one.first, ...other.first],
          more: [...one.more, ...other.more],
          size: one.size + other.size,
          readings: meet(one.first, other.first)
            ? one.size + other.size
            : Math.max(one.readings, other.readings),
        }));
    case 'Quantifier':
      return repeated(partOf(node.element as AST.Element), node);
    default:
      return NOTHING;
  }
}

function sequence(parts: readonly Part[]): Part {
  return parts.reduce((one, other) => {
    const isOpen = meet(one.more, other.first) || one.readings > 1;
    return {
      isOptional: one.isOptional && other.isOptional,
      first: one.isOptional ? [...one.first, ...other.first] : one.first,
      more: other.isOptional ? [...one.more, ...other.more] : other.more,
      size: one.size + other.size,
      readings: isOpen ? one.readings + other.size : Math.max(one.readings, other.readings),
    };
  }, NOTHING);
}

function repeated(part: Part, { min, max }: Pick<AST.Quantifier, 'min' | 'max'>): Part {
  const copies = Number.isFinite(max) ? max : min + 1;
  const isOpen = part.isOptional || part.readings > 1 || meet(part.more, part.first);
  const size = part.size * copies;
  return {
    isOptional: part.isOptional || min === 0,
    first: part.first,
    more: min === max ? part.more : [...part.more, ...part.first],
    size,
    readings: isOpen && copies > 1 ? size : part.readings,
  };
}

function meet(some: readonly Range[], others: readonly Range[]): boolean {
  return intersection(some, others).length > 0;
}
