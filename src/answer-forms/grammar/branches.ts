import type { Choices } from './choice.ts';
import type { NamedShapes, Shape } from './shape.ts';

/** More make one token take seconds with a large vocabulary, and other runs wait for it. */
export const BRANCHES_MAX = 512;
/** A form costs more than a value: each of its spaces is a branch too. */
const OF_A_FORM = 8;
/** So many references are followed into each other: two forms that begin alike double each time. */
const REFERENCES_DEEP = 9;

/**
 * In how many ways a grammar can continue at one place, at most. llama.cpp tests each token of the
 * vocabulary against each of them. Forms with different beginnings are known apart before their
 * parts come.
 */
export function branchesOf(root: Shape, named: NamedShapes, choices: Choices): number {
  const known = new Map<string, number>();

  const reference = (to: string, level: number): number => {
    const key = `${level} ${to}`;
    const target = named.get(to);
    if (!known.has(key) && target !== undefined && level < REFERENCES_DEEP)
      known.set(key, count(target, level + 1));
    return known.get(key) ?? 1;
  };
  const most = (shapes: readonly Shape[], level: number): number =>
    shapes.reduce((sum, shape) => Math.max(sum, count(shape, level)), 1);
  const count = (shape: Shape, level: number): number => {
    switch (shape.kind) {
      case 'values':
        return choices.of(shape.texts).branches;
      case 'reference':
        return reference(shape.to, level);
      case 'ways': {
        const alike = Map.groupBy(shape.ways, (way) => beginningOf(way, named)).values();
        const sums = [...alike].map((same) =>
          same.reduce((sum, way) => sum + count(way, level), 0),
        );
        return Math.max(shape.ways.length * OF_A_FORM, ...sums);
      }
      case 'object': {
        const values = shape.properties.map((property) => property.shape);
        return most(shape.others === null ? values : [...values, shape.others], level);
      }
      case 'array':
        return most([...shape.first, shape.rest], level);
      default:
        return 1;
    }
  };
  return count(root, 0);
}

/** The text by which a form differs from other forms before its first value. */
function beginningOf(shape: Shape, named: NamedShapes): string {
  const own = shape.kind === 'reference' ? (named.get(shape.to) ?? shape) : shape;
  if (own.kind === 'terminal') return own.type;
  const first = own.kind === 'object' ? own.properties[0] : undefined;
  if (first === undefined) return own.kind;
  const { name, shape: value } = first;
  return JSON.stringify([name, value.kind === 'values' ? value.texts : null]);
}
