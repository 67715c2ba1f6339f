import type { AnyMachineSnapshot, AnyStateNode } from 'xstate';

/**
 * Reads the state nodes of a machine.
 *
 * A group is a compound state that only shares transitions among the states inside it. Its node has
 * `meta: { isGroup: true }`. Users never see a group in a state path.
 */

/** The innermost state that a machine is in. */
export function leafOf(snapshot: AnyMachineSnapshot): AnyStateNode {
  return snapshot._nodes.find(({ type }) => type !== 'compound') ?? snapshot.machine.root;
}

/** The state path without the groups around it: `running.accepting`. Empty for the machine. */
export function pathOf(node: AnyStateNode): string {
  const known = paths.get(node);
  if (known !== undefined) return known;
  const path = lineage(node)
    .filter((around) => around === node || !isGroup(around))
    .map(({ key }) => key)
    .join('.');
  paths.set(node, path);
  return path;
}

/** A state is asked for its path at each event. */
const paths = new WeakMap<AnyStateNode, string>();

/** The node and the nodes around it, the outermost first, without the machine itself. */
export function lineage(node: AnyStateNode): AnyStateNode[] {
  return node.parent === undefined ? [] : [...lineage(node.parent), node];
}

export function isGroup(node: AnyStateNode): boolean {
  return node.meta?.isGroup === true;
}

/** A guard with its parameters: `isDeadline(idle)`. */
export function nameOf(item: unknown): string {
  if (typeof item === 'string') return item;
  const { type, params } = item as { type: string; params?: unknown };
  return typeof params === 'object' && params !== null
    ? `${type}(${Object.values(params).join(', ')})`
    : type;
}
