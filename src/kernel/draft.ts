import type { AnyMachineSnapshot } from 'xstate';
import { type AnyEvent, SCHEMA_VERSION } from '../../machines/events.ts';
import { accepted, init, type Step, statePath, step } from '../../machines/step.ts';
import { SvcError } from '../errors.ts';
import type { RunRow, StoredEvent } from '../store/port.ts';
import type { Pending } from './committer.ts';
import { Instance } from './instance.ts';
import { machineOf } from './registry.ts';
import type { Proposal } from './stream.ts';

export interface DraftOptions {
  at: number;
  boot_id: string;
  instances: Pick<ReadonlyMap<string, Instance>, 'get'>;
  project: (event: StoredEvent, snapshot: AnyMachineSnapshot) => RunRow | null;
}

/** A machine refuses an event in this state. */
export class Refusal {
  readonly type: string;
  readonly state: AnyMachineSnapshot;

  constructor(type: string, state: AnyMachineSnapshot) {
    this.type = type;
    this.state = state;
  }

  get error(): SvcError {
    const state = statePath(this.state);
    return new SvcError('event_refused', `${this.type} is not accepted in the state ${state}.`, {
      details: { state, accepted: accepted(this.state) },
    });
  }
}

/**
 * Steps the machines through the proposals, each on top of the ones before it. It changes no
 * instance. Returns the refusal of the first refused event.
 */
export function draft(
  proposals: readonly Proposal[],
  { at, boot_id, instances, project }: DraftOptions,
): Pending[] | Refusal {
  const drafted: Pending[] = [];
  for (const { stream, event: proposed } of proposals) {
    const dated = { ...proposed, at } as AnyEvent;
    const earlier = drafted.findLast((item) => item.event.stream === stream);
    const known = earlier?.instance ?? instances.get(stream);
    const tail = earlier?.snapshot ?? known?.tail;
    const next: Step<AnyMachineSnapshot> =
      tail === undefined ? init(machineOf(stream), dated) : step(machineOf(stream), tail, dated);
    // A machine that accepts an event has another snapshot after it.
    if (next.snapshot === tail) return new Refusal(dated.type, tail);
    const { type, at: _, ...data } = dated as AnyEvent & Record<string, unknown>;
    const event: StoredEvent = {
      seq: 0,
      stream,
      version: (earlier?.event.version ?? known?.tailVersion ?? 0) + 1,
      type,
      schema: SCHEMA_VERSION,
      at,
      boot_id,
      data,
    };
    drafted.push({
      event,
      instance: known ?? new Instance(stream, next.snapshot, 0),
      snapshot: next.snapshot,
      effects: next.effects,
      row: project(event, next.snapshot),
      settle: null,
    });
  }
  return drafted;
}
