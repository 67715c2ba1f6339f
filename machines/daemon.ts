import { assign, type SnapshotFrom, setup } from 'xstate';
import { type DaemonContext, evolve, newContext } from './daemon-context.ts';
import { effect } from './effects.ts';
import type { DaemonCreated, DaemonEvent, Deadline } from './events.ts';
import { isIn } from './step.ts';

/**
 * One boot of the daemon: one process, from its start to its end.
 *
 * 1. `live` and `ready` are tags of states. Health reads them and nothing else.
 * 2. A run is admitted only while this machine accepts `daemon.run_admitted`.
 * 3. `unsettled` counts the runs that are admitted and not settled. It is zero in `ready`, and
 *    above zero in `running.accepting` and `running.saturated`.
 * 4. `running.disk_full`: accepted runs continue, and no run is admitted until there is space.
 * 5. `running.disk_stalled`: a commit is late, and no run is admitted until the disk answers. The
 *    event is recorded afterwards, with the time of the stall.
 * 6. `starting` and `stopping` have deadlines. Each step of the recovery moves that of `starting`.
 */

const { createMachine } = setup({
  types: {} as { context: DaemonContext; events: DaemonEvent; input: DaemonCreated },
  actions: {
    closeDaemon: effect('closeDaemon'),
    evolve: assign(({ context, event }) => evolve(context, event)),
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

export const daemonMachine = createMachine({
  id: 'daemon',
  context: ({ input }) => newContext(input),
  initial: 'starting',
  on: { 'daemon.failed': { target: '.failed', actions: 'evolve' } },
  states: {
    starting: {
      tags: ['live'],
      initial: 'binding',
      on: {
        'daemon.start_deadline_passed': { target: 'failed', actions: 'evolve' },
        'daemon.stop_requested': { target: 'stopping.closing', actions: 'evolve' },
      },
      states: {
        binding: { on: { 'daemon.listening': { target: 'opening', actions: 'evolve' } } },
        opening: { on: { 'daemon.store_opened': { target: 'recovering', actions: 'evolve' } } },
        recovering: {
          on: {
            'daemon.listening': { actions: 'evolve' },
            'daemon.recovery_progressed': { actions: 'evolve' },
            'daemon.runs_recovered': { target: 'probing', actions: 'evolve' },
          },
        },
        probing: {
          on: {
            'daemon.run_settled': { actions: 'evolve' },
            'daemon.providers_probed': [
              {
                guard: 'isFull',
                target: '#daemon.up.running.serving.saturated',
                actions: 'evolve',
              },
              {
                guard: 'hasRuns',
                target: '#daemon.up.running.serving.accepting',
                actions: 'evolve',
              },
              { target: '#daemon.up.ready', actions: 'evolve' },
            ],
          },
        },
      },
    },
    up: {
      meta: { isGroup: true },
      tags: ['live', 'stable'],
      initial: 'ready',
      on: {
        'daemon.history_pruned': { actions: 'evolve' },
        'daemon.stop_requested': [
          { guard: 'isForced', target: 'stopping.closing', actions: 'evolve' },
          { guard: 'hasRuns', target: 'stopping.draining', actions: 'evolve' },
          { target: 'stopping.closing', actions: 'evolve' },
        ],
      },
      states: {
        ready: {
          tags: ['ready'],
          on: {
            'daemon.run_admitted': [
              { guard: 'takesLastPlace', target: 'running.serving.saturated', actions: 'evolve' },
              { target: 'running.serving.accepting', actions: 'evolve' },
            ],
            'daemon.store_filled': { target: 'running.disk_full', actions: 'evolve' },
            'daemon.disk_stalled': { target: 'running.disk_stalled', actions: 'evolve' },
          },
        },
        running: {
          initial: 'serving',
          states: {
            serving: {
              meta: { isGroup: true },
              tags: ['ready'],
              initial: 'accepting',
              on: {
                'daemon.store_filled': { target: 'disk_full', actions: 'evolve' },
                'daemon.disk_stalled': { target: 'disk_stalled', actions: 'evolve' },
              },
              states: {
                accepting: {
                  on: {
                    'daemon.run_admitted': [
                      { guard: 'takesLastPlace', target: 'saturated', actions: 'evolve' },
                      { guard: 'hasRoom', actions: 'evolve' },
                    ],
                    'daemon.run_settled': [
                      { guard: 'settlesLastRun', target: '#daemon.up.ready', actions: 'evolve' },
                      { actions: 'evolve' },
                    ],
                  },
                },
                saturated: {
                  on: {
                    'daemon.run_settled': [
                      { guard: 'settlesLastRun', target: '#daemon.up.ready', actions: 'evolve' },
                      { guard: 'staysFull', actions: 'evolve' },
                      { target: 'accepting', actions: 'evolve' },
                    ],
                  },
                },
              },
            },
            disk_full: {
              on: {
                'daemon.run_settled': { actions: 'evolve' },
                'daemon.store_freed': [
                  { guard: 'isFull', target: 'serving.saturated', actions: 'evolve' },
                  { guard: 'hasRuns', target: 'serving.accepting', actions: 'evolve' },
                  { target: '#daemon.up.ready', actions: 'evolve' },
                ],
              },
            },
            disk_stalled: {
              on: {
                'daemon.run_settled': { actions: 'evolve' },
                'daemon.store_filled': { target: 'disk_full', actions: 'evolve' },
                'daemon.disk_resumed': [
                  { guard: 'isFull', target: 'serving.saturated', actions: 'evolve' },
                  { guard: 'hasRuns', target: 'serving.accepting', actions: 'evolve' },
                  { target: '#daemon.up.ready', actions: 'evolve' },
                ],
              },
            },
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
              { guard: 'settlesLastRun', target: 'closing', actions: 'evolve' },
              { actions: 'evolve' },
            ],
            'daemon.drain_deadline_passed': { target: 'closing', actions: 'evolve' },
            'daemon.stop_requested': { guard: 'isForced', target: 'closing', actions: 'evolve' },
          },
        },
        closing: {
          entry: {
            type: 'closeDaemon',
            params: ({ context }) => ({ interrupt: context.unsettled > 0 }),
          },
          on: {
            'daemon.run_settled': { actions: 'evolve' },
            'daemon.stopped': { target: '#daemon.stopped', actions: 'evolve' },
            'daemon.close_deadline_passed': { target: '#daemon.failed', actions: 'evolve' },
          },
        },
      },
    },
    stopped: { type: 'final' },
    failed: { type: 'final' },
  },
});

export type DaemonSnapshot = SnapshotFrom<typeof daemonMachine>;

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function daemonDeadlines(snapshot: DaemonSnapshot): Deadline<DaemonEvent>[] {
  const { context } = snapshot;
  if (isIn(snapshot, 'starting'))
    return [{ at: context.start_deadline_at, event: { type: 'daemon.start_deadline_passed' } }];
  if (isIn(snapshot, 'draining'))
    return [{ at: context.drain_deadline_at, event: { type: 'daemon.drain_deadline_passed' } }];
  if (isIn(snapshot, 'closing'))
    return [{ at: context.close_deadline_at, event: { type: 'daemon.close_deadline_passed' } }];
  return [];
}

/** What must happen before the daemon is ready; null if it is ready. */
export function readyWhen(snapshot: DaemonSnapshot): string | null {
  if (snapshot.hasTag('ready')) return null;
  if (isIn(snapshot, 'binding')) return 'the listeners are bound';
  if (isIn(snapshot, 'opening')) return 'the event log is open';
  if (isIn(snapshot, 'recovering')) return 'unfinished runs of the last boot are settled';
  if (isIn(snapshot, 'probing')) return 'the local providers have answered their first probe';
  if (isIn(snapshot, 'disk_full')) return 'there is space on the disk again';
  if (isIn(snapshot, 'disk_stalled')) return 'the event log can be written again';
  return 'the daemon is started again';
}

/** Why the daemon starts no new work. */
export type Refusal = 'not_ready' | 'busy' | 'store_full' | 'store_stalled' | 'daemon_stopping';

/** Why the daemon refuses a new run in this state; null when it accepts one. */
export function refusal(daemon: DaemonSnapshot | undefined): Refusal | null {
  if (daemon === undefined || isIn(daemon, 'starting')) return 'not_ready';
  if (isIn(daemon, 'disk_full')) return 'store_full';
  if (isIn(daemon, 'disk_stalled')) return 'store_stalled';
  if (isIn(daemon, 'saturated')) return 'busy';
  return isIn(daemon, 'ready') || isIn(daemon, 'accepting') ? null : 'daemon_stopping';
}
