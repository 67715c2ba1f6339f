import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { isEffect } from './effects.ts';
import {
  deadlineName,
  isFold,
  isGroup,
  lineage,
  type Meaning,
  type Meta,
  nameOf,
  pathOf,
} from './machine.ts';

/** A machine as data. The API shows it, and the diagrams are drawn from it. */
export interface MachineShape {
  name: string;
  /** The path of the first state. */
  initial: string;
  /** In the order of their definition, an outer state before its inner states. */
  states: StateShape[];
  transitions: TransitionShape[];
}

export interface StateShape {
  /** Keys from the outside in: `running.accepting`. Groups are left out, so a group has its own. */
  path: string;
  /** The path of the state or group around it; empty at the outermost level. */
  parent: string;
  /** A group only shares transitions: users never see it in a state path. */
  type: 'atomic' | 'compound' | 'group' | 'final';
  /** Its own tags and those of the states around it. */
  tags: string[];
  /** The path of the inner state that is entered first; null in a state without inner states. */
  initial: string | null;
  /** Effects on entry. */
  effects: string[];
  /** The deadline that the state itself names; null if it names none. */
  deadline: string | null;
}

export interface TransitionShape {
  /** Empty for an event that is accepted in any state. */
  source: string;
  event: string;
  /** The state that is entered, which can have inner states; the source if no state is left. */
  target: string;
  guard: string | null;
  actions: string[];
}

export function describe(machine: AnyStateMachine): MachineShape {
  const nodes = descend(machine.root);
  return {
    name: machine.id,
    initial: pathOf(firstLeafOf(machine.root)),
    states: nodes.map((node) => ({
      path: pathOf(node),
      parent: node.parent === undefined ? '' : pathOf(node.parent),
      type: typeOf(node),
      tags: lineage(node).flatMap(({ tags }) => tags),
      initial: node.type === 'compound' ? pathOf(node.initial.target[0] as AnyStateNode) : null,
      effects: node.entry.map(nameOf).filter(isEffect),
      deadline: deadlineName(node),
    })),
    transitions: [machine.root, ...nodes].flatMap(transitionsOf),
  };
}

/** What the states of a machine mean for the user, by their path. */
export function meaningsOf(machine: AnyStateMachine): Record<string, Meaning> {
  return Object.fromEntries(
    descend(machine.root).flatMap((node) => {
      const { says } = (node.meta ?? {}) as Meta;
      return says === undefined ? [] : [[pathOf(node), says]];
    }),
  );
}

function descend(node: AnyStateNode): AnyStateNode[] {
  return Object.values(node.states).flatMap((child) => [child, ...descend(child)]);
}

/** The innermost state that is entered with this one. */
function firstLeafOf(node: AnyStateNode): AnyStateNode {
  return node.type === 'compound' ? firstLeafOf(node.initial.target[0] as AnyStateNode) : node;
}

function transitionsOf(node: AnyStateNode): TransitionShape[] {
  const source = pathOf(node);
  return [...node.transitions.values()]
    .flat()
    .flatMap(({ eventType, target = [], guard, actions }) => {
      const shape = {
        source,
        event: eventType,
        guard: guard === undefined ? null : nameOf(guard),
        actions: actions.map(nameOf).filter((action) => !isFold(action)),
      };
      return target.length === 0
        ? [{ ...shape, target: source }]
        : target.map((entered) => ({ ...shape, target: pathOf(entered as AnyStateNode) }));
    });
}

function typeOf(node: AnyStateNode): StateShape['type'] {
  if (isGroup(node)) return 'group';
  return node.type === 'compound' || node.type === 'final' ? node.type : 'atomic';
}
