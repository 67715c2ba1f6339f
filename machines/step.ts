import {
  type AnyActorScope,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createEmptyActor,
  type EventObject,
} from 'xstate';
import type { Effect } from './effects.ts';

/**
 * The only file that knows how XState is stepped.
 *
 * `transition()` of the library builds an actor for each call; here one inert scope serves them all, which is
 * several times faster. A property test holds both ways equal. Nothing is ever executed: a step is
 * data in, data out.
 */

export interface Step<S> {
  snapshot: S;
  effects: Effect[];
}

/** The state a machine has after the fact that created it, and the effects asked for. */
export function init<M extends AnyStateMachine>(
  machine: M,
  created: unknown,
): Step<ReturnType<M['getInitialSnapshot']>> {
  const scope = openScope();
  const snapshot = machine.getInitialSnapshot(scope, created as never);
  return close(snapshot as ReturnType<M['getInitialSnapshot']>);
}

/** The state after a fact. A fact that is not accepted leaves the state as it is and asks for nothing. */
export function step<M extends AnyStateMachine, S extends AnyMachineSnapshot>(
  machine: M,
  snapshot: S,
  event: EventObject,
): Step<S> {
  if (snapshot.status !== 'active') return { snapshot, effects: [] };
  const scope = openScope();
  return close(
    machine.transition(snapshot as never, event as never, scope as never) as unknown as S,
  );
}

/** Whether the machine accepts this fact now. */
export function can(snapshot: AnyMachineSnapshot, event: EventObject): boolean {
  return snapshot.status === 'active' && snapshot.can(event as never);
}

/** The types of fact that are accepted in this state, guards apart. */
export function accepted(snapshot: AnyMachineSnapshot): string[] {
  if (snapshot.status !== 'active') return [];
  const own = snapshot._nodes.flatMap((node) => node.ownEvents as string[]);
  return [...new Set(own)].sort();
}

/** The full state as text: `running.accepting`. */
export function statePath(snapshot: AnyMachineSnapshot): string {
  const parts: string[] = [];
  let value: unknown = snapshot.value;
  while (value !== null && typeof value === 'object') {
    const [key, next] = Object.entries(value)[0] ?? [];
    if (key === undefined) break;
    parts.push(key);
    value = next;
  }
  if (typeof value === 'string') parts.push(value);
  return parts.join('.');
}

/** The outermost state: `running`. */
export function stateName(snapshot: AnyMachineSnapshot): string {
  return statePath(snapshot).split('.')[0] ?? '';
}

let collected: Effect[] = [];

const self = createEmptyActor();
const inert = {
  self,
  // biome-ignore lint/suspicious/noExplicitAny: the library keeps the type of a system to itself
  system: (self as any).system,
  id: '',
  sessionId: '',
  logger: () => {},
  defer: () => {},
  emit: () => {},
  stopChild: () => {},
  actionExecutor: (action: { type: string; params: unknown }) => {
    if (action.params !== undefined)
      collected.push({ type: action.type, params: action.params } as Effect);
  },
} as unknown as AnyActorScope;

function openScope(): AnyActorScope {
  collected = [];
  return inert;
}

function close<S>(snapshot: S): Step<S> {
  const effects = collected;
  collected = [];
  return { snapshot, effects };
}
