import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import type { Effect } from '../../machines/effects.ts';
import type { CreationEvent, MachineEvent, NewEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import { can, init, step } from '../../machines/step.ts';
import { Notifier } from '../../src/async/notifier.ts';
import type { StreamPort } from '../../src/ports/log.ts';

export interface StreamDriver<S, E extends MachineEvent> extends StreamPort<S, E> {
  /** Every accepted event so far. */
  readonly events: E[];
  /** Fires the next deadline of the present state; throws when it has no deadline. */
  fireDeadline(): Promise<void>;
  /** Refuses proposals, as a kernel with a failed store does. */
  fail(error: Error): void;
}

export interface StreamDriverOptions {
  machine: AnyStateMachine;
  created: NewEvent<CreationEvent>;
  perform(effect: Effect): void;
}

/**
 * Drives one machine as the kernel does, without a store. It accepts or refuses an event at once.
 * The state shows it one turn later; then listeners get it, and its effects run last. Deadlines
 * fire only when the test says so.
 */
export function driveStream<S extends AnyMachineSnapshot, E extends MachineEvent>({
  machine,
  created,
  perform,
}: StreamDriverOptions): StreamDriver<S, E> {
  const changed = new Notifier();
  const events: E[] = [];
  let failure: Error | null = null;
  const first = init(machine, { ...created, at: Date.now() });
  let tail = first.snapshot as unknown as S;
  let durable = tail;
  let commits = Promise.resolve();

  const commit = (event: E, snapshot: S, effects: Effect[]) => {
    durable = snapshot;
    events.push(event);
    changed.notify();
    for (const effect of effects) perform(effect);
  };
  const tryAppend = async (undated: NewEvent<E>): Promise<boolean> => {
    if (failure !== null) throw failure;
    const event = { ...undated, at: Date.now() } as unknown as E;
    if (!can(tail, event)) return false;
    const next = step(machine, tail, event);
    tail = next.snapshot;
    commits = commits
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => commit(event, next.snapshot, next.effects));
    await commits;
    return true;
  };
  return {
    events,
    tryAppend,
    snapshot: () => durable,
    subscribe: (listener, signal) => changed.subscribe(listener, signal),
    waitFor: (look, signal) => changed.waitFor(() => look(durable), signal),
    fireDeadline: async () => {
      const [soonest] = deadlinesOf(durable).sort((a, b) => a.at - b.at);
      if (soonest === undefined) throw new Error('the state has no deadline');
      await tryAppend(soonest.event as unknown as NewEvent<E>);
    },
    fail: (error) => {
      failure = error;
    },
  };
}
