import type { DaemonCreated, DaemonEvent } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';

type Step = NewEvent<DaemonEvent>;

const listening: Step = {
  type: 'daemon.listening',
  addresses: { http: 'http://127.0.0.1:1', grpc: '127.0.0.1:2', socket: null },
};
const opened: Step = { type: 'daemon.store_opened', last_boot: null };
const recovered: Step = { type: 'daemon.runs_recovered', queued: 0, ended: 0 };
const probed: Step = { type: 'daemon.providers_probed' };
const admitted: Step = { type: 'daemon.run_admitted', run_id: 'run_x' };
export const stop: Step = {
  type: 'daemon.stop_requested',
  by: 'test',
  mode: 'drain',
  drain_deadline_at: 2e12,
  close_deadline_at: 2e12,
};
const ready = [listening, opened, recovered, probed];

/** Events that lead from the start to every state of the daemon, in a possible order. */
export const EVENTS_TO: Record<string, Step[]> = {
  'starting.binding': [],
  'starting.opening': [listening],
  'starting.recovering': [listening, opened],
  'starting.probing': [listening, opened, recovered],
  ready,
  'running.accepting': [...ready, admitted],
  'running.saturated': [...ready, admitted, admitted],
  'running.disk_full': [...ready, admitted, { type: 'daemon.store_filled' }],
  'running.disk_stalled': [...ready, admitted, { type: 'daemon.disk_stalled' }],
  'stopping.draining': [...ready, admitted, stop],
  'stopping.closing': [...ready, stop],
  stopped: [...ready, stop, { type: 'daemon.stopped' }],
  failed: [
    ...ready,
    {
      type: 'daemon.failed',
      error: { code: 'store_full', message: 'The disk is full.', retryable: false },
    },
  ],
};

export const NOW = Date.parse('2026-01-01T00:00:00.000Z');
export const CREATED: DaemonCreated = {
  type: 'daemon.boot_started',
  at: NOW,
  boot_id: 'boot_1',
  host_boot_id: 'host',
  pid: 1,
  version: '0.1.0',
  capacity: 2,
  start_deadline_at: 2e12,
};
