import { isRecord } from '../../../json.ts';
import type { Choice } from './choice.ts';

type Made = Readonly<Record<string, unknown>>;

/** More make one token take seconds with a large vocabulary, and other runs wait for it. */
export const BRANCHES_MAX = 512;
/** A form costs more than a value: each of its spaces is a branch too. */
const OF_A_FORM = 8;
/** So many references are followed into each other: two forms that begin alike double each time. */
const REFERENCES_DEEP = 9;

/**
 * In how many ways a grammar can go on at one place, at most. llama.cpp tests each token of the
 * vocabulary against each of them. Forms with different beginnings are known apart before their
 * parts come.
 */
export function branchesOf(
  root: Made,
  definitions: Readonly<Record<string, Made>>,
  choices: ReadonlyMap<string, Choice>,
): number {
  const known = new Map<string, number>();

  const referred = (made: Made): Made =>
    typeof made.$ref === 'string' ? (definitions[nameOf(made.$ref)] ?? made) : made;
  const reference = (to: string, level: number): number => {
    const key = `${level} ${to}`;
    const definition = definitions[nameOf(to)];
    if (!known.has(key) && definition !== undefined && level < REFERENCES_DEEP)
      known.set(key, count(definition, level + 1));
    return known.get(key) ?? 1;
  };
  const count = (made: Made, level: number): number => {
    const { oneOf, $ref, properties = {}, additionalProperties, items, prefixItems } = made;
    if (typeof made.const === 'string') return choices.get(made.const)?.branches ?? 1;
    if (typeof $ref === 'string') return reference($ref, level);
    if (Array.isArray(oneOf)) {
      const alike = [...Map.groupBy(oneOf as Made[], (each) => beginning(referred(each))).values()];
      const sums = alike.map((same) => same.reduce((sum, each) => sum + count(each, level), 0));
      return Math.max(oneOf.length * OF_A_FORM, ...sums);
    }
    const parts = [...Object.values(properties as Made), ...((prefixItems as Made[]) ?? [])];
    const all = [...parts, additionalProperties, items].filter(isRecord);
    return all.reduce((most, part) => Math.max(most, count(part, level)), 1);
  };
  return count(root, 0);
}

/** By what a form differs from others before its first value. */
function beginning(made: Made): string {
  const { properties = {}, type } = made;
  const [first] = Object.entries(properties as Record<string, Made>);
  if (first !== undefined) return JSON.stringify([first[0], first[1].const ?? null]);
  return typeof type === 'string' ? type : '';
}

function nameOf(reference: string): string {
  return reference.slice('#/$defs/'.length);
}
