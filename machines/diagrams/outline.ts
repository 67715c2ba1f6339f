import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { lineage, nameOf, pathOf } from '../nodes.ts';
import type { Walk } from './paint.ts';

/** A machine as a drawing sees it: states in the order of their definition, and what leads from one to another. */
export interface Outline {
  name: string;
  states: State[];
  edges: Edge[];
}

export interface State {
  /** Keys from the outside in, joined by `_`; empty for the machine itself. */
  id: string;
  /** The same, joined by dots. */
  path: string;
  name: string;
  /** Id of the state around it; empty at the outermost level. */
  parent: string;
  kind: 'simple' | 'compound' | 'final';
  /** Its own and those of the states around it. */
  tags: string[];
  /** Actions on entry. */
  entry: string[];
  /** Events that lead nowhere else. */
  loops: Label[];
  /** Both of them, a line each. */
  inside: string[];
  /** Id of the state that is entered first; null in a simple one. */
  initial: string | null;
}

export interface Label {
  /** Without the name of the machine. */
  event: string;
  guard: string | null;
  actions: string[];
  /** Null where it is not told. */
  walk: Walk | null;
}

export interface Edge extends Label {
  /** Empty for an event that the machine takes in any state. */
  from: string;
  to: string;
  /** The event with the name of the machine, as the log has it. */
  type: string;
}

/** How the edges from one state to another, by the paths of both, are walked; null: it is not told. The path of the machine itself is empty. */
export type WalkOf = (source: string, type: string, target: string) => Walk | null;

export function outline(machine: AnyStateMachine, walkOf: WalkOf = () => null): Outline {
  const nodes = [machine.root, ...descend(machine.root)];
  const states = nodes.slice(1).map((node) => describe(node, machine.id, walkOf));
  return {
    name: machine.id,
    states,
    edges: nodes.flatMap((node) => leaving(node, machine.id, walkOf)),
  };
}

/** `event [guard] / action, action`, in one line. */
export function labelOf({ event, guard, actions }: Omit<Label, 'walk'>): string {
  return [event, guard && `[${guard}]`, actions.length > 0 && `/ ${actions.join(', ')}`]
    .filter(Boolean)
    .join(' ');
}

function descend(node: AnyStateNode): AnyStateNode[] {
  return Object.values(node.states).flatMap((child) => [child, ...descend(child)]);
}

function describe(node: AnyStateNode, machine: string, walkOf: WalkOf): State {
  const entry = names(node.entry);
  const loops = transitions(node)
    .filter(({ target }) => target === undefined || target.length === 0)
    .map((loop) => ({
      ...say(loop, machine),
      walk: walkOf(pathOf(node), loop.eventType, pathOf(node)),
    }));
  return {
    id: idOf(node),
    path: pathOf(node),
    name: node.key,
    parent: node.parent === undefined ? '' : idOf(node.parent),
    kind: node.type === 'final' ? 'final' : node.type === 'compound' ? 'compound' : 'simple',
    tags: lineage(node).flatMap(({ tags }) => tags),
    entry,
    loops,
    inside: [
      ...(entry.length > 0 ? [`on entry / ${entry.join(', ')}`] : []),
      ...loops.map(labelOf),
    ],
    initial: node.type === 'compound' ? idOf(node.initial.target[0] as AnyStateNode) : null,
  };
}

function leaving(node: AnyStateNode, machine: string, walkOf: WalkOf): Edge[] {
  return transitions(node).flatMap((transition) =>
    (transition.target ?? []).map((target) => ({
      from: idOf(node),
      to: idOf(target as AnyStateNode),
      type: transition.eventType,
      ...say(transition, machine),
      walk: walkOf(pathOf(node), transition.eventType, pathOf(target as AnyStateNode)),
    })),
  );
}

type Transition = ReturnType<typeof transitions>[number];

function transitions(node: AnyStateNode) {
  return [...node.transitions.values()].flat();
}

function say({ eventType, guard, actions }: Transition, machine: string): Omit<Label, 'walk'> {
  return {
    event: eventType.replace(`${machine}.`, ''),
    guard: guard === undefined ? null : nameOf(guard),
    actions: names(actions),
  };
}

function names(actions: readonly unknown[]): string[] {
  return actions.map(nameOf);
}

function idOf(node: AnyStateNode): string {
  return node.path.join('_');
}
