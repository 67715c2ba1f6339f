import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type {
  Addresses,
  DaemonCreated,
  DaemonEvent,
  Deadline,
  Failure,
  LastBoot,
  StopReport,
} from './events.ts';

/**
 * One life of the daemon process, from its first instant to its last.
 *
 * 1. `live` and `ready` are tags of states: health is read from them and from nothing else.
 * 2. A run is admitted only while this machine accepts `daemon.run_admitted`: the queue has no other door.
 * 3. `unsettled` is the number of runs admitted and not settled; it is zero in `ready`, above zero in `running` but for `disk_full` and `disk_stalled`.
 * 4. `disk_full`: the disk is full. What was accepted goes on; nothing new is admitted until there is space.
 * 5. `disk_stalled`: a commit is late. Nothing new is admitted until the disk answers. The fact is recorded afterwards, with the time of the stall.
 * 6. `starting` and `stopping` end by a deadline if nothing else ends them; the rest end by a stop. That of `starting` moves with each step of the recovery.
 */

export interface DaemonContext {
  boot_id: string;
  host_boot_id: string | null;
  pid: number;
  version: string;
  capacity: number;
  unsettled: number;
  addresses: Addresses;
  last_boot: LastBoot | null;
  start_deadline_at: number;
  /** How long the start may go on without progress. */
  start_ms: number;
  drain_deadline_at: number;
  close_deadline_at: number;
  /** Finished runs that this life removed from the history. */
  pruned_runs: number;
  stop_requested_by: string | null;
  stop_report: StopReport | null;
  error: Failure | null;
}

const machine = setup({
  types: {} as { context: DaemonContext; events: DaemonEvent; input: DaemonCreated },
  actions: {
    closeDaemon: effect('closeDaemon'),
    noteAddresses: assign(({ context, event }) =>
      event.type === 'daemon.listening'
        ? { addresses: { ...context.addresses, ...event.addresses } }
        : {},
    ),
    noteLastBoot: assign(({ event }) =>
      event.type === 'daemon.store_opened' ? { last_boot: event.last_boot } : {},
    ),
    // A start that gets further at each step needs no bound but that on the step.
    noteProgress: assign(({ context, event }) => ({
      start_deadline_at: Math.max(context.start_deadline_at, event.at + context.start_ms),
    })),
    countRecovered: assign(({ event }) =>
      event.type === 'daemon.runs_recovered'
        ? { unsettled: event.queued + (event.suspended ?? 0) }
        : {},
    ),
    countAdmitted: assign(({ context }) => ({ unsettled: context.unsettled + 1 })),
    countSettled: assign(({ context }) => ({ unsettled: Math.max(0, context.unsettled - 1) })),
    // A transition without an action would count as not accepted.
    notePruning: assign(({ context, event }) =>
      event.type === 'daemon.history_pruned'
        ? { pruned_runs: context.pruned_runs + event.runs }
        : {},
    ),
    noteStop: assign(({ event }) =>
      event.type === 'daemon.stop_requested'
        ? {
            drain_deadline_at: event.drain_deadline_at,
            close_deadline_at: event.close_deadline_at,
            stop_requested_by: event.by,
          }
        : {},
    ),
    noteReport: assign(({ event }) =>
      event.type === 'daemon.stopped'
        ? {
            stop_report: {
              finished: event.finished ?? 0,
              handed_over: event.handed_over ?? 0,
              ended: event.ended ?? 0,
            },
          }
        : {},
    ),
    noteFailure: assign(({ event }) =>
      event.type === 'daemon.failed' ? { error: event.error } : {},
    ),
    noteStartTimeout: assign({
      error: {
        code: 'start_timed_out',
        message: 'The daemon did not become ready in time.',
        retryable: true,
      },
    }),
    noteCloseTimeout: assign({
      error: {
        code: 'stop_timed_out',
        message: 'The daemon could not release everything it held in time.',
        retryable: false,
      },
    }),
  },
  guards: {
    hasRoom: ({ context }) => context.unsettled < context.capacity,
    takesLastPlace: ({ context }) => context.unsettled + 1 === context.capacity,
    settlesLastRun: ({ context }) => context.unsettled <= 1,
    staysFull: ({ context }) => context.unsettled - 1 >= context.capacity,
    hasRuns: ({ context }) => context.unsettled > 0,
    isFull: ({ context }) => context.unsettled >= context.capacity,
    isForced: ({ event }) => event.type === 'daemon.stop_requested' && event.mode === 'force',
  },
});

export const daemonMachine = machine.createMachine({
  id: 'daemon',
  context: ({ input }) => ({
    boot_id: input.boot_id,
    host_boot_id: input.host_boot_id,
    pid: input.pid,
    version: input.version,
    capacity: input.capacity,
    unsettled: 0,
    addresses: { http: null, grpc: null, socket: null },
    last_boot: null,
    start_deadline_at: input.start_deadline_at,
    start_ms: input.start_deadline_at - input.at,
    drain_deadline_at: 0,
    close_deadline_at: 0,
    pruned_runs: 0,
    stop_requested_by: null,
    stop_report: null,
    error: null,
  }),
  initial: 'starting',
  on: { 'daemon.failed': { target: '.failed', actions: 'noteFailure' } },
  states: {
    starting: {
      tags: ['live'],
      initial: 'binding',
      on: {
        'daemon.start_deadline_passed': { target: 'failed', actions: 'noteStartTimeout' },
        'daemon.stop_requested': { target: 'stopping.closing', actions: 'noteStop' },
      },
      states: {
        binding: { on: { 'daemon.listening': { target: 'opening', actions: 'noteAddresses' } } },
        opening: {
          on: { 'daemon.store_opened': { target: 'recovering', actions: 'noteLastBoot' } },
        },
        recovering: {
          on: {
            'daemon.listening': { actions: 'noteAddresses' },
            'daemon.recovery_progressed': { actions: 'noteProgress' },
            'daemon.runs_recovered': { target: 'probing', actions: 'countRecovered' },
          },
        },
        probing: {
          on: {
            'daemon.run_settled': { actions: 'countSettled' },
            'daemon.providers_probed': [
              { guard: 'isFull', target: '#daemon.running.saturated' },
              { guard: 'hasRuns', target: '#daemon.running.accepting' },
              { target: '#daemon.ready' },
            ],
          },
        },
      },
    },
    ready: {
      tags: ['live', 'ready', 'stable'],
      on: {
        'daemon.run_admitted': [
          { guard: 'takesLastPlace', target: 'running.saturated', actions: 'countAdmitted' },
          { target: 'running.accepting', actions: 'countAdmitted' },
        ],
        'daemon.store_filled': { target: 'running.disk_full' },
        'daemon.disk_stalled': { target: 'running.disk_stalled' },
        'daemon.history_pruned': { actions: 'notePruning' },
        'daemon.stop_requested': { target: 'stopping.closing', actions: 'noteStop' },
      },
    },
    running: {
      tags: ['live', 'stable'],
      initial: 'accepting',
      on: {
        'daemon.history_pruned': { actions: 'notePruning' },
        'daemon.stop_requested': [
          { guard: 'isForced', target: 'stopping.closing', actions: 'noteStop' },
          { guard: 'hasRuns', target: 'stopping.draining', actions: 'noteStop' },
          { target: 'stopping.closing', actions: 'noteStop' },
        ],
      },
      states: {
        accepting: {
          tags: ['ready'],
          on: {
            'daemon.store_filled': { target: 'disk_full' },
            'daemon.disk_stalled': { target: 'disk_stalled' },
            'daemon.run_admitted': [
              { guard: 'takesLastPlace', target: 'saturated', actions: 'countAdmitted' },
              { guard: 'hasRoom', actions: 'countAdmitted' },
            ],
            'daemon.run_settled': [
              { guard: 'settlesLastRun', target: '#daemon.ready', actions: 'countSettled' },
              { actions: 'countSettled' },
            ],
          },
        },
        saturated: {
          tags: ['ready'],
          on: {
            'daemon.store_filled': { target: 'disk_full' },
            'daemon.disk_stalled': { target: 'disk_stalled' },
            'daemon.run_settled': [
              { guard: 'settlesLastRun', target: '#daemon.ready', actions: 'countSettled' },
              { guard: 'staysFull', actions: 'countSettled' },
              { target: 'accepting', actions: 'countSettled' },
            ],
          },
        },
        disk_full: {
          on: {
            'daemon.run_settled': { actions: 'countSettled' },
            'daemon.store_freed': [
              { guard: 'isFull', target: 'saturated' },
              { guard: 'hasRuns', target: 'accepting' },
              { target: '#daemon.ready' },
            ],
          },
        },
        disk_stalled: {
          on: {
            'daemon.run_settled': { actions: 'countSettled' },
            'daemon.store_filled': { target: 'disk_full' },
            'daemon.disk_resumed': [
              { guard: 'isFull', target: 'saturated' },
              { guard: 'hasRuns', target: 'accepting' },
              { target: '#daemon.ready' },
            ],
          },
        },
      },
    },
    stopping: {
      tags: ['live'],
      initial: 'draining',
      states: {
        draining: {
          on: {
            'daemon.run_settled': [
              { guard: 'settlesLastRun', target: 'closing', actions: 'countSettled' },
              { actions: 'countSettled' },
            ],
            'daemon.drain_deadline_passed': { target: 'closing' },
            'daemon.stop_requested': { guard: 'isForced', target: 'closing', actions: 'noteStop' },
          },
        },
        closing: {
          entry: {
            type: 'closeDaemon',
            params: ({ context }) => ({ interrupt: context.unsettled > 0 }),
          },
          on: {
            'daemon.run_settled': { actions: 'countSettled' },
            'daemon.stopped': { target: '#daemon.stopped', actions: 'noteReport' },
            'daemon.close_deadline_passed': {
              target: '#daemon.failed',
              actions: 'noteCloseTimeout',
            },
          },
        },
      },
    },
    stopped: { type: 'final' },
    failed: { type: 'final' },
  },
});

export type DaemonSnapshot = SnapshotFrom<typeof daemonMachine>;

/** What happens by itself if nothing else does. */
export function daemonDeadlines(snapshot: DaemonSnapshot): Deadline<DaemonEvent>[] {
  const { context } = snapshot;
  if (snapshot.matches('starting'))
    return [{ at: context.start_deadline_at, event: { type: 'daemon.start_deadline_passed' } }];
  if (snapshot.matches({ stopping: 'draining' }))
    return [{ at: context.drain_deadline_at, event: { type: 'daemon.drain_deadline_passed' } }];
  if (snapshot.matches({ stopping: 'closing' }))
    return [{ at: context.close_deadline_at, event: { type: 'daemon.close_deadline_passed' } }];
  return [];
}

/** What has to happen before the daemon is ready; null when it is. */
export function readyWhen(snapshot: DaemonSnapshot): string | null {
  if (snapshot.hasTag('ready')) return null;
  if (snapshot.matches({ starting: 'binding' })) return 'the listeners are bound';
  if (snapshot.matches({ starting: 'opening' })) return 'the event log is open';
  if (snapshot.matches({ starting: 'recovering' }))
    return 'unfinished runs of the last boot are settled';
  if (snapshot.matches({ starting: 'probing' }))
    return 'the local providers have answered their first probe';
  if (snapshot.matches({ running: 'disk_full' })) return 'there is space on the disk again';
  if (snapshot.matches({ running: 'disk_stalled' })) return 'the disk answers again';
  return 'the daemon is started again';
}
