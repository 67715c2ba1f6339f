import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import type { CreationEvent, MachineEvent } from '../../../machines/events.ts';
import type { CallMade } from '../../../machines/tool-call.ts';

/**
 * What the walk over a machine has to know of it: the bounds within which "every path" is meant.
 */
export interface Model<S = AnyMachineSnapshot> {
  name: string;
  machine: AnyStateMachine;
  /** The event that creates the machine; its numbers are the bounds. */
  created: CreationEvent | CallMade;
  /**
   * Every event in each of its payload classes, seen from a state: matching and stale, forced or
   * not, retryable or not.
   */
  samples(snapshot: S): MachineEvent[];
  /**
   * States with the same key take the same events to the same keys. Counters saturate here, so that
   * the graph is finite.
   */
  key(snapshot: S): string;
  /** The event that asks the machine to end. */
  stop: MachineEvent;
  /** Whether the machine has released everything: in a final state, or in its resting state. */
  isOver(snapshot: S): boolean;
  /** A walk that finds fewer has lost its way. */
  least: { states: number; edges: number; refused: number };
}

/** The time of every sample: after the creation, before every deadline. */
export const NOW = 1_700_000_001_000;

/**
 * Forgets the machine's own type of snapshot: the walk treats all machines alike. A walk asks for
 * the key of a snapshot again and again.
 */
export function model<S extends AnyMachineSnapshot>(typed: Model<S>): Model {
  const keys = new WeakMap<S, string>();
  const key = (snapshot: S) => {
    const known = keys.get(snapshot) ?? typed.key(snapshot);
    keys.set(snapshot, known);
    return known;
  };
  return { ...typed, key } as unknown as Model;
}
