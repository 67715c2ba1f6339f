import { type SnapshotFrom, setup } from 'xstate';
import type { EventOf } from '../src/contract/events.ts';
import type { Failure } from './events.ts';
import { type Deadlines, type Meta, withRules } from './machine.ts';

/**
 * The lease of one boot of a node. Only a boot with a lease writes the log that it shares.
 *
 * 1. The clock of the database measures a lease. No deadline here ends it.
 * 2. Renewals are not recorded: they would be the most frequent events. The first failure is, and
 *    so is the next success.
 * 3. A boot that lost its lease cannot record that. The node that took over does, or the next boot.
 * 4. A lost lease is lost for good. The node joins again with a new boot and a higher epoch.
 */

export type LeaseCreated = EventOf<
  'lease.requested',
  { node_id: string; boot_id: string; host: string }
>;

export type LeaseEvent =
  /** `previous_boot_id`: the boot that had this node id before. */
  | EventOf<'lease.granted', { epoch: number; lease_ms: number; previous_boot_id: string | null }>
  /** The first renewal that failed after a successful one. */
  | EventOf<'lease.renewal_failed', { error: Failure }>
  | EventOf<'lease.renewed'>
  | EventOf<'lease.leave_requested', { leave_deadline_at: number }>
  /** `forced`: the work did not end in time. */
  | EventOf<'lease.left', { forced: boolean }>
  /** Recorded by another boot: `by` is its node. */
  | EventOf<'lease.lost', { epoch: number; by: string }>;

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

const chart = setup({
  types: {} as { meta: Meta; context: LeaseContext; events: LeaseEvent; input: LeaseCreated },
  guards: {
    isThisEpoch: ({ context, event }) =>
      event.type === 'lease.lost' && event.epoch === context.epoch,
  },
}).createMachine({
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
      meta: { says: ['active', 'The node asks the database for a lease.'] },
      tags: ['stable'],
      on: { 'lease.granted': 'holding', 'lease.leave_requested': 'leaving' },
    },
    holding: {
      initial: 'renewed',
      on: {
        'lease.lost': { guard: 'isThisEpoch', target: 'lost' },
        'lease.leave_requested': 'leaving',
      },
      states: {
        renewed: {
          meta: { says: ['good', 'The node has a lease.'] },
          tags: ['stable'],
          on: { 'lease.renewal_failed': 'late' },
        },
        late: {
          meta: { says: ['warn', 'The lease was not renewed in time.'] },
          tags: ['stable'],
          on: { 'lease.renewed': 'renewed' },
        },
      },
    },
    leaving: {
      meta: { says: ['warn', 'The node ends its runs, then its lease.'], deadline: 'leave' },
      on: { 'lease.lost': { guard: 'isThisEpoch', target: 'lost' }, 'lease.left': 'left' },
    },
    left: { meta: { says: ['plain', 'The node left the fleet.'] }, type: 'final' },
    lost: { meta: { says: ['bad', 'The node lost its lease.'] }, type: 'final' },
  },
});

export type LeaseSnapshot = SnapshotFrom<typeof chart>;

const deadlines: Deadlines<LeaseSnapshot, LeaseEvent> = {
  leave: ({ context }) => ({
    at: context.leave_deadline_at,
    event: { type: 'lease.left', forced: true },
  }),
};

export const leaseMachine = withRules(chart, { evolve, deadlines });

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
