import { type SnapshotFrom, setup } from 'xstate';
import { effect } from '../effects.ts';
import { type Deadlines, type Meta, withRules } from '../machine.ts';
import { isIn } from '../step.ts';
import type { DaemonCreated, DaemonEvent } from './context.ts';
import { type DaemonContext, evolve, newContext } from './context.ts';

/**
 * One boot of the daemon: one process, from its start to its end.
 *
 * 1. `live` and `ready` are tags of states. Health reads them and nothing else.
 * 2. A run is admitted only while this machine accepts `daemon.run_admitted`.
 * 3. `unsettled` counts the runs that are admitted and not settled. It is zero in `ready`, and
 *    above zero in `running.accepting` and `running.saturated`. Mostly the events of the runs say
 *    both: see `counts.ts`.
 * 4. `running.disk_full`: accepted runs continue, and no run is admitted until there is space.
 * 5. `running.disk_stalled`: a commit is late, and no run is admitted until the disk answers. The
 *    event is recorded afterwards, with the time of the stall.
 * 6. `starting` and `stopping` have deadlines. Each step of the recovery moves that of `starting`.
 */

/** The state to return to, chosen by the number of runs. */
const BACK_TO_WORK = [
  { guard: 'isFull', target: '#daemon.up.running.serving.saturated' },
  { guard: 'hasRuns', target: '#daemon.up.running.serving.accepting' },
  { target: '#daemon.up.ready' },
] as const;

const chart = setup({
  types: {} as {
    tags: 'live' | 'ready' | 'stable' | 'stopping' | 'store_full' | 'store_stalled';
    meta: Meta;
    context: DaemonContext;
    events: DaemonEvent;
    input: DaemonCreated;
  },
  actions: { closeDaemon: effect('closeDaemon') },
  guards: {
    hasRoom: ({ context }) => context.unsettled < context.capacity,
    takesLastPlace: ({ context }) => context.unsettled + 1 === context.capacity,
    settlesLastRun: ({ context }) => context.unsettled <= 1,
    staysFull: ({ context }) => context.unsettled - 1 >= context.capacity,
    hasRuns: ({ context }) => context.unsettled > 0,
    isFull: ({ context }) => context.unsettled >= context.capacity,
    isForced: ({ event }) => event.type === 'daemon.stop_requested' && event.mode === 'force',
  },
}).createMachine({
  id: 'daemon',
  context: ({ input }) => newContext(input),
  initial: 'starting',
  on: { 'daemon.failed': '.failed' },
  states: {
    starting: {
      meta: { deadline: 'start' },
      tags: ['live'],
      initial: 'binding',
      on: { 'daemon.start_deadline_passed': 'failed', 'daemon.stop_requested': 'stopping.closing' },
      states: {
        binding: {
          meta: { says: ['active', 'It starts: it takes its addresses.'] },
          on: { 'daemon.listening': 'opening' },
        },
        opening: {
          meta: { says: ['active', 'It starts: it opens its log.'] },
          on: { 'daemon.store_opened': 'recovering' },
        },
        recovering: {
          meta: { says: ['active', 'It starts: it recovers the runs of its last life.'] },
          on: {
            'daemon.listening': {},
            'daemon.recovery_progressed': {},
            'daemon.runs_recovered': 'probing',
          },
        },
        probing: {
          meta: { says: ['active', 'It starts: it looks which providers answer.'] },
          on: { 'daemon.run_settled': {}, 'daemon.providers_probed': BACK_TO_WORK },
        },
      },
    },
    up: {
      meta: { isGroup: true },
      tags: ['live', 'stable'],
      initial: 'ready',
      on: {
        'daemon.history_pruned': {},
        'daemon.stop_requested': [
          { guard: 'isForced', target: 'stopping.closing' },
          { guard: 'hasRuns', target: 'stopping.draining' },
          { target: 'stopping.closing' },
        ],
      },
      states: {
        ready: {
          meta: { says: ['good', 'It waits for runs.'] },
          tags: ['ready'],
          on: {
            'daemon.run_admitted': [
              { guard: 'takesLastPlace', target: 'running.serving.saturated' },
              { target: 'running.serving.accepting' },
            ],
            'daemon.store_filled': 'running.disk_full',
            'daemon.disk_stalled': 'running.disk_stalled',
          },
        },
        running: {
          initial: 'serving',
          states: {
            serving: {
              meta: { isGroup: true },
              tags: ['ready'],
              initial: 'accepting',
              on: { 'daemon.store_filled': 'disk_full', 'daemon.disk_stalled': 'disk_stalled' },
              states: {
                accepting: {
                  meta: { says: ['good', 'It answers runs, and takes more.'] },
                  on: {
                    'daemon.run_admitted': [
                      { guard: 'takesLastPlace', target: 'saturated' },
                      { guard: 'hasRoom' },
                    ],
                    'daemon.run_settled': [
                      { guard: 'settlesLastRun', target: '#daemon.up.ready' },
                      {},
                    ],
                  },
                },
                saturated: {
                  meta: { says: ['warn', 'Its queue is full: it refuses new runs.'] },
                  on: {
                    'daemon.run_settled': [
                      { guard: 'settlesLastRun', target: '#daemon.up.ready' },
                      { guard: 'staysFull' },
                      { target: 'accepting' },
                    ],
                  },
                },
              },
            },
            disk_full: {
              meta: { says: ['bad', 'The disk is full: it refuses new runs.'] },
              tags: ['store_full'],
              on: { 'daemon.run_settled': {}, 'daemon.store_freed': BACK_TO_WORK },
            },
            disk_stalled: {
              meta: { says: ['bad', 'The disk takes no writes: it refuses new runs.'] },
              tags: ['store_stalled'],
              on: {
                'daemon.run_settled': {},
                'daemon.store_filled': 'disk_full',
                'daemon.disk_resumed': BACK_TO_WORK,
              },
            },
          },
        },
      },
    },
    stopping: {
      tags: ['live', 'stopping'],
      initial: 'draining',
      states: {
        draining: {
          meta: { says: ['warn', 'It stops when its runs have ended.'], deadline: 'drain' },
          on: {
            'daemon.run_settled': [{ guard: 'settlesLastRun', target: 'closing' }, {}],
            'daemon.drain_deadline_passed': 'closing',
            'daemon.stop_requested': { guard: 'isForced', target: 'closing' },
          },
        },
        closing: {
          meta: { says: ['warn', 'It stops now.'], deadline: 'close' },
          entry: {
            type: 'closeDaemon',
            params: ({ context }) => ({ interrupt: context.unsettled > 0 }),
          },
          on: {
            'daemon.run_settled': {},
            'daemon.stopped': '#daemon.stopped',
            'daemon.close_deadline_passed': '#daemon.failed',
          },
        },
      },
    },
    stopped: { meta: { says: ['plain', 'It has stopped.'] }, type: 'final' },
    failed: { meta: { says: ['bad', 'It has failed.'] }, type: 'final' },
  },
});

export type DaemonSnapshot = SnapshotFrom<typeof chart>;

const deadlines: Deadlines<DaemonSnapshot, DaemonEvent> = {
  start: ({ context }) => ({
    at: context.start_deadline_at,
    event: { type: 'daemon.start_deadline_passed' },
  }),
  drain: ({ context }) => ({
    at: context.drain_deadline_at,
    event: { type: 'daemon.drain_deadline_passed' },
  }),
  close: ({ context }) => ({
    at: context.close_deadline_at,
    event: { type: 'daemon.close_deadline_passed' },
  }),
};

export const daemonMachine = withRules(chart, { evolve, deadlines });

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
