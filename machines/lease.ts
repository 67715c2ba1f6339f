import { assign, type SnapshotFrom, setup } from 'xstate';
import type { Deadline, Failure, LeaseCreated, LeaseEvent } from './events.ts';
import { isIn } from './step.ts';

/**
 * The lease of one boot of a node. Only a boot with a lease writes the log that it shares.
 *
 * 1. The clock of the database measures a lease. No deadline here ends it.
 * 2. A renewal is no event: it would be the most frequent one. The first that fails is, and so is
 *    the next that succeeds.
 * 3. A boot that lost its lease cannot record that. The node that took over does, or the next boot.
 * 4. A lost lease is lost for good. The node joins again with a new boot and a higher epoch.
 */

export interface LeaseContext {
  node_id: string;
  boot_id: string;
  host: string;
  /** 0 before the node has joined. */
  epoch: number;
  lease_ms: number;
  previous_boot_id: string | null;
  requested_at: number;
  granted_at: number | null;
  /** Since when its renewals fail, and why. */
  late_since: number | null;
  error: Failure | null;
  /** The node that recorded the loss. */
  lost_to: string | null;
  leave_deadline_at: number;
  ended_at: number | null;
}

const { createMachine } = setup({
  types: {} as { context: LeaseContext; events: LeaseEvent; input: LeaseCreated },
  actions: {
    evolve: assign(({ context, event }) => evolve(context, event)),
  },
  guards: {
    isThisEpoch: ({ context, event }) =>
      event.type === 'lease.lost' && event.epoch === context.epoch,
  },
});

export const leaseMachine = createMachine({
  id: 'lease',
  context: ({ input }) => ({
    node_id: input.node_id,
    boot_id: input.boot_id,
    host: input.host,
    epoch: 0,
    lease_ms: 0,
    previous_boot_id: null,
    requested_at: input.at,
    granted_at: null,
    late_since: null,
    error: null,
    lost_to: null,
    leave_deadline_at: 0,
    ended_at: null,
  }),
  initial: 'joining',
  states: {
    joining: {
      tags: ['stable'],
      on: {
        'lease.granted': { target: 'holding', actions: 'evolve' },
        'lease.leave_requested': { target: 'leaving', actions: 'evolve' },
      },
    },
    holding: {
      initial: 'renewed',
      on: {
        'lease.lost': { guard: 'isThisEpoch', target: 'lost', actions: 'evolve' },
        'lease.leave_requested': { target: 'leaving', actions: 'evolve' },
      },
      states: {
        renewed: {
          tags: ['stable'],
          on: { 'lease.renewal_failed': { target: 'late', actions: 'evolve' } },
        },
        late: {
          tags: ['stable'],
          on: { 'lease.renewed': { target: 'renewed', actions: 'evolve' } },
        },
      },
    },
    leaving: {
      on: {
        'lease.lost': { guard: 'isThisEpoch', target: 'lost', actions: 'evolve' },
        'lease.left': { target: 'left', actions: 'evolve' },
      },
    },
    left: { type: 'final' },
    lost: { type: 'final' },
  },
});

export type LeaseSnapshot = SnapshotFrom<typeof leaseMachine>;

/** What an event changes, whatever the state is. */
function evolve(_: LeaseContext, event: LeaseEvent): Partial<LeaseContext> {
  switch (event.type) {
    case 'lease.granted': {
      const { epoch, lease_ms, previous_boot_id } = event;
      return { epoch, lease_ms, previous_boot_id, granted_at: event.at };
    }
    case 'lease.renewal_failed':
      return { late_since: event.at, error: event.error };
    case 'lease.renewed':
      return { late_since: null, error: null };
    case 'lease.leave_requested':
      return { leave_deadline_at: event.leave_deadline_at };
    case 'lease.left':
      return { ended_at: event.at };
    case 'lease.lost':
      return { ended_at: event.at, lost_to: event.by };
    default:
      return event satisfies never;
  }
}

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function leaseDeadlines(snapshot: LeaseSnapshot): Deadline<LeaseEvent>[] {
  return isIn(snapshot, 'leaving')
    ? [{ at: snapshot.context.leave_deadline_at, event: { type: 'lease.left', forced: true } }]
    : [];
}
