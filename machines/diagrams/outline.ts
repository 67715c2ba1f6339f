import type { AnyStateMachine } from 'xstate';
import { describe, type StateShape, type TransitionShape } from '../describe.ts';
import type { Walk } from './paint.ts';

/** A machine as a diagram shows it: ids instead of paths, and the arrows apart from the loops. */
export interface Outline {
  name: string;
  states: State[];
  edges: Edge[];
  /** A choice that several events share: the same guards lead to the same states. */
  choices: Choice[];
}

export interface Choice {
  id: string;
  /** The edges of the events that lead here, and one of them that says where each guard leads. */
  edges: readonly Edge[];
  exits: readonly Edge[];
}

export interface State extends Omit<StateShape, 'parent' | 'initial'> {
  /** The path with `_` for dots. */
  id: string;
  name: string;
  /** The id of the state around it; empty at the outermost level. */
  parent: string;
  /** The id of the inner state that is entered first; null in a state without inner states. */
  initial: string | null;
  /** Whether it has inner states. */
  isCompound: boolean;
  /** Events that leave no state. */
  loops: Label[];
}

export interface Label {
  /** Without the name of the machine. */
  event: string;
  /** With the name of the machine, as in the log. */
  type: string;
  guard: string | null;
  /** Null in a diagram that does not show what the tests walk. */
  walk: Walk | null;
}

export interface Edge extends Label {
  /** An id; empty for an event that is accepted in any state. */
  from: string;
  to: string;
}

/** How the tests walk the edges between two paths; null if the diagram does not show it. */
export type WalkOf = (source: string, type: string, target: string) => Walk | null;

export function outline(machine: AnyStateMachine, walkOf: WalkOf = () => null): Outline {
  const { name, states, transitions } = describe(machine);
  const label = ({ source, event, target, guard }: TransitionShape): Label => ({
    event: event.replace(`${name}.`, ''),
    type: event,
    guard,
    walk: walkOf(source, event, target),
  });
  const edges = transitions
    .filter(({ source, target }) => target !== source)
    .map((transition) => ({
      ...label(transition),
      from: idOf(transition.source),
      to: idOf(transition.target),
    }));
  return {
    name,
    states: states.map((state) => ({
      ...state,
      id: idOf(state.path),
      name: state.path.split('.').at(-1) ?? '',
      parent: idOf(state.parent),
      initial: state.initial === null ? null : idOf(state.initial),
      isCompound: state.initial !== null,
      loops: transitions
        .filter(({ source, target }) => source === state.path && target === source)
        .map(label),
    })),
    edges,
    choices: choicesOf(edges),
  };
}

function choicesOf(edges: readonly Edge[]): Choice[] {
  const events = Map.groupBy(edges, ({ from, type }) => `${from} ${type}`);
  const alike = Map.groupBy(events.values(), (exits) =>
    exits.map(({ guard, to }) => `${guard} ${to}`).join(),
  );
  return [...alike.values()]
    .filter((same) => same.length > 1 && (same[0]?.length ?? 0) > 1)
    .map((same, index) => ({
      id: `choice_${index + 1}`,
      edges: same.flat(),
      exits: same[0] ?? [],
    }));
}

/** The choice that an edge leads to; undefined if it leads to its state. */
export function choiceOf({ choices }: Outline, edge: Edge): Choice | undefined {
  return choices.find(({ edges }) => edges.includes(edge));
}

/** Whether an edge is the first of its event. To a choice, only this one is drawn. */
export function isFirst({ edges }: Choice, edge: Edge): boolean {
  return edges.find(({ from, type }) => from === edge.from && type === edge.type) === edge;
}

/** Arrows to one place. Where more would lead, their rows name it. */
const ARROWS_MAX = 3;

/** Whether the row of the event names the state or the choice it leads to, in place of an arrow. */
export function isNamed(drawn: Outline, edge: Edge): boolean {
  const choice = choiceOf(drawn, edge);
  const arrows =
    choice === undefined
      ? drawn.edges.filter(({ to }) => to === edge.to)
      : choice.edges.filter((each) => isFirst(choice, each));
  return arrows.length > ARROWS_MAX;
}

/** `event [guard]`. */
export function textOf({ event, guard }: Label): string {
  return guard === null ? event : `${event} [${guard}]`;
}

function idOf(path: string): string {
  return path.replaceAll('.', '_');
}
