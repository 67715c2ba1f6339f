import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { lineage, nameOf, pathOf } from './nodes.ts';

/** A machine as data, for those who show it or reason about it. */
export interface MachineShape {
  name: string;
  /** The state that a new one has. */
  initial: string;
  states: StateShape[];
  transitions: TransitionShape[];
}

export interface StateShape {
  /** Keys from the outside in: `running.accepting`. */
  path: string;
  type: 'atomic' | 'compound' | 'final';
  /** Its own and those of the states around it. */
  tags: string[];
}

export interface TransitionShape {
  /** Empty for an event that is taken in any state. */
  source: string;
  /** The type of the fact. */
  event: string;
  /** The state that is entered, which may have states inside; the source where the event leads nowhere else. */
  target: string;
  guard: string | null;
  actions: string[];
}

/** The shape of a machine: its states in the order of their definition, the outer before the inner. */
export function describe(machine: AnyStateMachine): MachineShape {
  const nodes = [machine.root, ...descend(machine.root)];
  return {
    name: machine.id,
    initial: pathOf(first(machine.root)),
    states: nodes.slice(1).map((node) => ({
      path: pathOf(node),
      type: typeOf(node),
      tags: lineage(node).flatMap(({ tags }) => tags),
    })),
    transitions: nodes.flatMap(leaving),
  };
}

function descend(node: AnyStateNode): AnyStateNode[] {
  return Object.values(node.states).flatMap((child) => [child, ...descend(child)]);
}

/** The innermost state that is entered with this one. */
function first(node: AnyStateNode): AnyStateNode {
  return node.type === 'compound' ? first(node.initial.target[0] as AnyStateNode) : node;
}

function leaving(node: AnyStateNode): TransitionShape[] {
  const source = pathOf(node);
  return [...node.transitions.values()]
    .flat()
    .flatMap(({ eventType, target = [], guard, actions }) => {
      const shape = {
        source,
        event: eventType,
        guard: guard === undefined ? null : nameOf(guard),
        actions: actions.map(nameOf),
      };
      return target.length === 0
        ? [{ ...shape, target: source }]
        : target.map((entered) => ({ ...shape, target: pathOf(entered as AnyStateNode) }));
    });
}

function typeOf(node: AnyStateNode): StateShape['type'] {
  return node.type === 'compound' || node.type === 'final' ? node.type : 'atomic';
}
