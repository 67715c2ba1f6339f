import {
  type AnyActorScope,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createEmptyActor,
  type EventObject,
} from 'xstate';
import { type Effect, isEffect } from './effects.ts';
import { leafOf, pathOf } from './nodes.ts';

/**
 * Steps a machine as a pure function. Only this file and `nodes.ts` read the internals of XState.
 *
 * `transition()` of XState creates an actor per call. One inert scope for all calls is several
 * times faster; a property test checks that both give the same result. No effect is performed here.
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
  const effects: Effect[] = [];
  const snapshot = machine.getInitialSnapshot(collecting(effects), created as never);
  return { snapshot: snapshot as ReturnType<M['getInitialSnapshot']>, effects };
}

/** The state after an event. An event that is not accepted changes nothing and has no effects. */
export function step<M extends AnyStateMachine, S extends AnyMachineSnapshot>(
  machine: M,
  snapshot: S,
  event: EventObject,
): Step<S> {
  const effects: Effect[] = [];
  if (snapshot.status !== 'active') return { snapshot, effects };
  const scope = collecting(effects) as never;
  const next = machine.transition(snapshot as never, event as never, scope);
  return { snapshot: next as unknown as S, effects };
}

/** Whether the machine accepts this event now. */
export function can(snapshot: AnyMachineSnapshot, event: EventObject): boolean {
  return snapshot.status === 'active' && snapshot.can(event as never);
}

/** The types of the events that this state accepts, if their guards agree. */
export function accepted(snapshot: AnyMachineSnapshot): string[] {
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
function collecting(effects: Effect[]): AnyActorScope {
  const actionExecutor = ({ type, params }: { type: string; params: unknown }) => {
    if (isEffect(type)) effects.push({ type, params } as Effect);
  };
  return { ...inert, actionExecutor } as unknown as AnyActorScope;
}
