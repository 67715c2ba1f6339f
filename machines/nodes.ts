import type { AnyStateNode } from 'xstate';

/** What is read of a machine's own nodes, for its description and its picture. */

/** A guard with parameters shows them: `isDeadlineHere(idle)`. */
export function nameOf(item: unknown): string {
  if (typeof item === 'string') return item;
  const { type, params } = item as { type: string; params?: unknown };
  return typeof params === 'object' && params !== null
    ? `${type}(${Object.values(params).join(', ')})`
    : type;
}

/** The node and those around it, the outermost first. */
export function lineage(node: AnyStateNode): AnyStateNode[] {
  return node.parent === undefined ? [node] : [...lineage(node.parent), node];
}

/** Its state path: `running.accepting`. */
export function pathOf(node: AnyStateNode): string {
  return node.path.join('.');
}
