import {
  type AnyActorScope,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  createEmptyActor,
  type EventObject,
} from 'xstate';
import { type Effect, isEffect } from './effects.ts';
import { leafOf, lineage, pathOf } from './machine.ts';

/**
 * Steps a machine as a pure function. Only this file and `machine.ts` read the internals of XState.
 *
 * `transition()` of XState creates an actor per call, and finds the next states each time. Here the
 * library finds them once for each transition from a state, and once for the first state. From then
 * on they are known. A property test checks that both give the same result. No effect is performed
 * here.
 */

export interface Step<S> {
  snapshot: S;
  effects: Effect[];
}

/** The first state of a machine, and the effects it asks for. */
export function init<M extends AnyStateMachine>(
  machine: M,
  created: unknown,
): Step<ReturnType<M['getInitialSnapshot']>> {
  const make = machine.config.context as (args: { input: unknown }) => unknown;
  const event = { type: 'xstate.init', input: created };
  return perform(machine, firstOf(machine, created), make({ input: created }), event);
}

/** The state after an event. An event that is not accepted changes nothing and has no effects. */
export function step<M extends AnyStateMachine, S extends AnyMachineSnapshot>(
  machine: M,
  snapshot: S,
  event: EventObject,
): Step<S> {
  const chosen = snapshot.status === 'active' ? choose(machine, snapshot, event) : null;
  if (chosen === null) return { snapshot, effects: [] };
  return perform(machine, moveOf(machine, snapshot, event, chosen), snapshot.context, event);
}

/** Applies the actions of a move, in order. */
function perform<S>(
  { implementations }: AnyStateMachine,
  { next, actions }: Move,
  before: unknown,
  event: EventObject,
): Step<S> {
  const effects: Effect[] = [];
  let context = before;
  for (const action of actions) {
    const { type, params } = typeof action === 'string' ? { type: action, params: null } : action;
    const made = implementations.actions[type] as unknown as Assign | undefined;
    if (made?.assignment !== undefined)
      context = withChanges(
        context as object,
        evaluateAssignment(made.assignment, { context, event }),
      );
    else if (isEffect(type))
      effects.push({
        type,
        params: typeof params === 'function' ? params({ context, event }) : params,
      });
  }
  return { snapshot: { ...next, context } as unknown as S, effects };
}

/** The transition that the event takes: of the innermost state that has one whose guard agrees. */
function choose(
  { implementations }: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
): Chosen | null {
  const { context } = snapshot;
  for (let node: AnyStateNode | undefined = leafOf(snapshot); node; node = node.parent)
    for (const transition of node.transitions.get(event.type) ?? []) {
      const guard = transition.guard as string | { type: string; params?: unknown } | undefined;
      if (guard === undefined) return transition;
      const { type, params } =
        typeof guard === 'string' ? { type: guard, params: undefined } : guard;
      const agrees = implementations.guards[type] as unknown as (
        args: object,
        params: unknown,
      ) => boolean;
      if (agrees({ context, event }, params)) return transition;
    }
  return null;
}

/** The target of a transition from a state, and its actions. */
interface Move {
  /** The next snapshot, without its context. */
  next: object;
  actions: readonly (string | { type: string; params?: unknown })[];
}
type Chosen =
  ReturnType<AnyStateNode['transitions']['get']> extends (infer T)[] | undefined ? T : never;
interface Args {
  context: unknown;
  event: EventObject;
}
interface Assign {
  assignment?: ((args: Args) => object) | Record<string, unknown>;
}

/** A copy with these changes. A second spread would take twice as long. */
function withChanges(context: object, changes: object): object {
  const next = { ...context };
  for (const name in changes) next[name as never] = changes[name as never];
  return next;
}

/** The changed part of the context. An assignment is a function, or has one for each field. */
function evaluateAssignment(assignment: NonNullable<Assign['assignment']>, args: Args): object {
  if (typeof assignment === 'function') return assignment(args);
  const fields = Object.entries(assignment).map(([name, value]) => [
    name,
    typeof value === 'function' ? value(args) : value,
  ]);
  return Object.fromEntries(fields);
}

/** Whether the transition enters the state, which is active after it. No machine uses `reenter`. */
function isEntered(node: AnyStateNode, { source, target }: Chosen): boolean {
  if (target === undefined) return false;
  const within = [source, ...target].map((end) => lineage(end as AnyStateNode));
  const inside = target.every((end) => lineage(end as AnyStateNode).includes(source));
  const domain = inside
    ? source
    : within[0]?.findLast(
        (around) => around !== source && within.every((ends) => ends.slice(0, -1).includes(around)),
      );
  return node !== domain && (domain === undefined || lineage(node).includes(domain));
}

/** By machine: the way into its first state. */
const firsts = new WeakMap<AnyStateMachine, Move>();

function firstOf(machine: AnyStateMachine, created: unknown): Move {
  const known = firsts.get(machine);
  if (known !== undefined) return known;
  const scope = collectEffects([]);
  const first = machine.getInitialSnapshot(scope, created as never) as AnyMachineSnapshot;
  const move = { next: { ...first, context: null }, actions: entriesOf(first._nodes) };
  firsts.set(machine, move);
  return move;
}

function entriesOf(nodes: readonly AnyStateNode[]): Move['actions'] {
  return [...nodes]
    .sort((a, b) => a.order - b.order)
    .flatMap((node) => node.entry as Move['actions']);
}

/** By state and transition. There are as many as edges in the diagrams. */
const moves = new WeakMap<AnyStateNode, WeakMap<object, Move>>();

function moveOf(
  machine: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: EventObject,
  chosen: Chosen,
): Move {
  const leaf = leafOf(snapshot);
  const known = moves.get(leaf)?.get(chosen);
  if (known !== undefined) return known;
  const scope = collectEffects([]) as never;
  const next = machine.transition(snapshot as never, event as never, scope) as AnyMachineSnapshot;
  const entered = next._nodes.filter((node) => isEntered(node, chosen));
  const move = {
    next: { ...next, context: null },
    actions: [...(chosen.actions as Move['actions']), ...entriesOf(entered)],
  };
  const ofLeaf = moves.get(leaf) ?? new WeakMap<object, Move>();
  moves.set(leaf, ofLeaf.set(chosen, move));
  return move;
}

/** Whether the machine accepts this event now. */
export function can(snapshot: AnyMachineSnapshot, event: EventObject): boolean {
  return snapshot.status === 'active' && choose(snapshot.machine, snapshot, event) !== null;
}

/** The types of the events that this state accepts, if their guards agree. */
export function acceptedTypesOf(snapshot: AnyMachineSnapshot): string[] {
  if (snapshot.status !== 'active') return [];
  const own = snapshot._nodes.flatMap((node) => node.ownEvents as string[]);
  return [...new Set(own)].sort();
}

/** Every name in the state value of a machine, at any level. */
type NamesIn<V> = V extends string
  ? V
  : string extends keyof V
    ? string
    : { [K in keyof V & string]: K | NamesIn<V[K]> }[keyof V & string];

/** Whether the machine is in the state of this name, at any level. A machine uses a name once. */
export function isIn<S extends AnyMachineSnapshot>(
  snapshot: S | undefined,
  name: NamesIn<S['value']>,
): boolean {
  if (snapshot === undefined) return false;
  return snapshot._nodes.some(({ key, parent }) => parent !== undefined && key === name);
}

/** The full state as text: `running.accepting`. */
export function statePath(snapshot: AnyMachineSnapshot): string {
  return pathOf(leafOf(snapshot));
}

/** The outermost state: `running`. */
export function stateName(snapshot: AnyMachineSnapshot): string {
  return statePath(snapshot).split('.')[0] ?? '';
}

const self = createEmptyActor();
const inert = {
  self,
  // biome-ignore lint/suspicious/noExplicitAny: XState does not export the type of a system
  system: (self as any).system,
  id: '',
  sessionId: '',
  logger: () => {},
  defer: () => {},
  emit: () => {},
  stopChild: () => {},
};

/** A scope that performs nothing, and adds the effects of a step to the list. */
function collectEffects(effects: Effect[]): AnyActorScope {
  const actionExecutor = ({ type, params }: { type: string; params: unknown }) => {
    if (isEffect(type)) effects.push({ type, params } as Effect);
  };
  return { ...inert, actionExecutor } as unknown as AnyActorScope;
}
