import { type DaemonSnapshot, daemonMachine } from '../../../machines/daemon/chart.ts';
import type { DaemonCreated, DaemonEvent } from '../../../machines/daemon/context.ts';
import { type Model, model, NOW } from './model.ts';

const error = {
  code: 'port_in_use',
  message: 'Another program listens on the address.',
  retryable: false,
};
const last_boot = { boot_id: 'boot_0', ending: 'killed', at: 1, unfinished_runs: 2 } as const;
const stop = {
  type: 'daemon.stop_requested',
  at: NOW,
  by: 'test',
  drain_deadline_at: NOW + 10_000,
  close_deadline_at: NOW + 20_000,
} as const;

/** `capacity` runs may be unsettled; more than that are found after a crash only. */
export function daemonModel(capacity: number): Model {
  const created: DaemonCreated = {
    type: 'daemon.boot_started',
    at: NOW - 1000,
    boot_id: 'boot_1',
    host_boot_id: 'host_1',
    pid: 4242,
    version: '0.1.0',
    capacity,
    start_deadline_at: NOW + 5000,
  };
  return model<DaemonSnapshot>({
    name: 'daemon',
    machine: daemonMachine,
    created,
    samples: (): DaemonEvent[] => [
      {
        type: 'daemon.listening',
        at: NOW,
        addresses: {
          http: 'http://127.0.0.1:4780',
          grpc: '127.0.0.1:4781',
          socket: '/run/svc.sock',
        },
      },
      { type: 'daemon.store_opened', at: NOW, last_boot: null },
      { type: 'daemon.store_opened', at: NOW, last_boot },
      ...[0, 1, capacity, capacity + 1].map(
        (queued): DaemonEvent => ({
          type: 'daemon.runs_recovered',
          at: NOW,
          queued,
          suspended: 0,
          ended: 1,
        }),
      ),
      { type: 'daemon.runs_recovered', at: NOW, queued: 0, suspended: 1, ended: 0 },
      { type: 'daemon.runs_recovered', at: NOW, queued: 1, suspended: capacity, ended: 0 },
      { type: 'daemon.runs_recovered', at: NOW, queued: 1, ended: 0 },
      { type: 'daemon.recovery_progressed', at: NOW, runs: 500 },
      { type: 'daemon.providers_probed', at: NOW },
      { type: 'daemon.run_admitted', at: NOW, run_id: 'run_1' },
      { type: 'daemon.run_settled', at: NOW, run_id: 'run_1' },
      { type: 'daemon.store_filled', at: NOW },
      { type: 'daemon.store_freed', at: NOW },
      { type: 'daemon.disk_stalled', at: NOW },
      { type: 'daemon.disk_resumed', at: NOW },
      { type: 'daemon.history_pruned', at: NOW, runs: 3, events: 20 },
      { ...stop, mode: 'drain' },
      { ...stop, mode: 'force' },
      { type: 'daemon.start_deadline_passed', at: NOW },
      { type: 'daemon.drain_deadline_passed', at: NOW },
      { type: 'daemon.close_deadline_passed', at: NOW },
      { type: 'daemon.stopped', at: NOW },
      { type: 'daemon.stopped', at: NOW, finished: 1, handed_over: 2, ended: 3 },
      { type: 'daemon.failed', at: NOW, error },
    ],
    key: ({ value, context }) =>
      JSON.stringify([value, context.unsettled, context.error?.code ?? null]),
    stop: { ...stop, mode: 'drain' },
    isOver: (snapshot) => snapshot.status === 'done',
    least: { states: 47, edges: 156, refused: 972 },
  });
}
