import type { AnyMachineSnapshot } from 'xstate';
import { type AnyEvent, SCHEMA_VERSION } from '../../machines/events.ts';
import { accepted, can, init, type Step, statePath, step } from '../../machines/step.ts';
import { SvcError } from '../errors.ts';
import type { RunRow, StoredEvent } from '../store/port.ts';
import type { Pending } from './committer.ts';
import { Instance } from './instance.ts';
import { definitionOf } from './registry.ts';
import type { Proposal } from './stream.ts';

export interface DraftOptions {
  at: number;
  boot_id: string;
  instances: ReadonlyMap<string, Instance>;
  project: (event: StoredEvent, snapshot: AnyMachineSnapshot) => RunRow | null;
}

/** An instance with the proposals so far. */
interface Draft {
  instance: Instance;
  tail: AnyMachineSnapshot;
  version: number;
}

/**
 * Steps the machines through the proposals, each on top of the ones before it. It changes no
 * instance. Throws event_refused when a machine refuses its event.
 */
export function draft(proposals: readonly Proposal[], options: DraftOptions): Pending[] {
  const { at, boot_id, instances, project } = options;
  const drafts = new Map<string, Draft>();
  return proposals.map(({ stream, event: proposed }) => {
    const dated = { ...proposed, at } as AnyEvent;
    const known = instances.get(stream);
    const before =
      drafts.get(stream) ??
      (known && { instance: known, tail: known.tail, version: known.tailVersion });
    const { snapshot, effects } =
      before === undefined
        ? init(definitionOf(stream).machine, dated)
        : advance(stream, before.tail, dated);
    const instance = before?.instance ?? new Instance(stream, snapshot, 0);
    const version = (before?.version ?? 0) + 1;
    drafts.set(stream, { instance, tail: snapshot, version });
    const { type, at: _, ...data } = dated as AnyEvent & Record<string, unknown>;
    const event: StoredEvent = {
      seq: 0,
      stream,
      version,
      type,
      schema: SCHEMA_VERSION,
      at,
      boot_id,
      data,
    };
    return { event, instance, snapshot, effects, row: project(event, snapshot), settle: null };
  });
}

function advance(
  stream: string,
  tail: AnyMachineSnapshot,
  event: AnyEvent,
): Step<AnyMachineSnapshot> {
  if (can(tail, event)) return step(definitionOf(stream).machine, tail, event);
  const state = statePath(tail);
  throw new SvcError('event_refused', `${event.type} is not accepted in the state ${state}.`, {
    details: { state, accepted: accepted(tail) },
  });
}
