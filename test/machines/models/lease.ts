import type { Failure } from '../../../machines/events.ts';
import type { LeaseCreated, LeaseEvent } from '../../../machines/lease.ts';
import { type LeaseSnapshot, leaseMachine } from '../../../machines/lease.ts';
import { type Model, model, NOW } from './model.ts';

const error: Failure = {
  code: 'store_stalled',
  message: 'The database does not answer.',
  retryable: true,
};
const created: LeaseCreated = {
  type: 'lease.requested',
  at: NOW - 1000,
  node_id: 'node_1',
  boot_id: 'boot_1',
  host: 'here',
};
const EPOCH = 3;

export function leaseModel(): Model {
  return model<LeaseSnapshot>({
    name: 'lease',
    machine: leaseMachine,
    created,
    samples: (): LeaseEvent[] => [
      { type: 'lease.granted', at: NOW, epoch: EPOCH, lease_ms: 10_000, previous_boot_id: null },
      { type: 'lease.renewal_failed', at: NOW, error },
      { type: 'lease.renewed', at: NOW },
      { type: 'lease.leave_requested', at: NOW, leave_deadline_at: NOW + 5000 },
      ...[true, false].map((forced): LeaseEvent => ({ type: 'lease.left', at: NOW, forced })),
      ...[EPOCH, EPOCH - 1, EPOCH + 1].map(
        (epoch): LeaseEvent => ({ type: 'lease.lost', at: NOW, epoch, by: 'node_2' }),
      ),
    ],
    key: ({ value, context }) => JSON.stringify([value, context.epoch]),
    stop: { type: 'lease.leave_requested', at: NOW, leave_deadline_at: NOW + 5000 },
    isOver: ({ status }) => status === 'done',
    least: { states: 8, edges: 13, refused: 50 },
  });
}
