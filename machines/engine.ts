import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, EngineCreated, EngineEvent, EngineInfo, Failure } from './events.ts';

/**
 * The child process that holds the local model.
 *
 * 1. At most one process exists; it belongs to the attempt whose number it carries, and facts of an earlier one are not accepted.
 * 2. A process is gone when `engine.exited` says so, or given up when it outlives its kill: no other way leads out of a state with one.
 * 3. A model that does not load in time is not tried again by itself: the next try would hang too.
 * 4. A crash is followed by a wait that doubles with each crash in a row, up to a bound; work that was done ends the row.
 */

export interface EngineContext {
  attempt: number;
  model: string | null;
  path: string | null;
  /** Threads that were asked for; null where the engine chooses. */
  threads: number | null;
  info: EngineInfo | null;
  error: Failure | null;
  /** Crashes in a row, saturating. */
  crashes: number;
  since: number;
  due_at: number;
  start_ms: number;
  load_ms: number;
  stop_ms: number;
  kill_ms: number;
  idle_ms: number;
}

const DIED: Failure = {
  code: 'engine_crashed',
  message: 'The engine process died.',
  retryable: true,
};
const TOO_MUCH_MEMORY: Failure = {
  code: 'engine_crashed',
  message:
    'The engine process was ended: it took more memory than the limit engine_memory_bytes allows.',
  retryable: false,
};

export const CRASHES_COUNTED = 5;
const BACKOFF_FIRST_MS = 250;

const machine = setup({
  types: {} as { context: EngineContext; events: EngineEvent; input: EngineCreated },
  actions: {
    startEngine: effect('startEngine'),
    stopEngine: effect('stopEngine'),
    killEngine: effect('killEngine'),
    noteLoad: assign(({ context, event }) =>
      event.type === 'engine.load_requested'
        ? {
            attempt: event.attempt,
            model: event.model,
            path: event.path,
            threads: event.threads ?? null,
            info: null,
            error: null,
            since: event.at,
            due_at: event.at + context.start_ms,
          }
        : {},
    ),
    noteProcess: assign(({ context, event }) => ({
      since: event.at,
      due_at: event.at + context.load_ms,
    })),
    noteLoaded: assign(({ context, event }) =>
      event.type === 'engine.model_loaded'
        ? { info: event.info, since: event.at, due_at: event.at + context.idle_ms }
        : {},
    ),
    noteLoadFailure: assign(({ event }) =>
      event.type === 'engine.load_failed' ? { error: event.error } : {},
    ),
    noteStartTimeout: assign({
      error: {
        code: 'engine_timed_out',
        message: 'The engine process did not come up in time.',
        retryable: true,
      },
    }),
    noteLoadTimeout: assign({
      error: {
        code: 'engine_timed_out',
        message: 'The engine did not load the model in time.',
        retryable: false,
      },
    }),
    noteIdle: assign(({ context, event }) => ({
      crashes: 0,
      since: event.at,
      due_at: event.at + context.idle_ms,
    })),
    noteBusy: assign(({ event }) => ({ since: event.at })),
    noteStopping: assign(({ context, event }) => ({
      since: event.at,
      due_at: event.at + context.stop_ms,
    })),
    noteKilling: assign(({ context, event }) => ({ due_at: event.at + context.kill_ms })),
    noteGone: assign(({ event }) => ({ model: null, path: null, info: null, since: event.at })),
    noteCrash: assign(({ context, event }) => {
      const crashes = Math.min(CRASHES_COUNTED, context.crashes + 1);
      const ended = event.type === 'engine.exited' && event.reason === 'memory';
      const error = ended ? TOO_MUCH_MEMORY : DIED;
      return {
        crashes,
        error,
        info: null,
        since: event.at,
        due_at: event.at + BACKOFF_FIRST_MS * 2 ** (crashes - 1),
      };
    }),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'engine.load_requested' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
  },
});

const stops = { 'engine.stop_requested': { target: '#engine.stopping' } } as const;
const crashes = {
  'engine.exited': { guard: 'isThisAttempt', target: '#engine.crashed', actions: 'noteCrash' },
} as const;
const timesOut = <A extends string>(actions: A) =>
  ({
    'engine.deadline_passed': { guard: 'isThisAttempt', target: '#engine.stopping', actions },
  }) as const;
const failsToLoad = {
  'engine.load_failed': {
    guard: 'isThisAttempt',
    target: '#engine.stopping',
    actions: 'noteLoadFailure',
  },
} as const;

export const engineMachine = machine.createMachine({
  id: 'engine',
  context: ({ input }) => ({
    attempt: 0,
    model: null,
    path: null,
    threads: null,
    info: null,
    error: null,
    crashes: 0,
    since: input.at,
    due_at: 0,
    start_ms: input.start_ms,
    load_ms: input.load_ms,
    stop_ms: input.stop_ms,
    kill_ms: input.kill_ms,
    idle_ms: input.idle_ms,
  }),
  initial: 'cold',
  states: {
    cold: {
      tags: ['stable'],
      on: {
        'engine.load_requested': {
          guard: 'isNextAttempt',
          target: 'starting',
          actions: 'noteLoad',
        },
      },
    },
    starting: {
      entry: {
        type: 'startEngine',
        params: ({ context }) => ({
          attempt: context.attempt,
          model: context.model ?? '',
          path: context.path ?? '',
          threads: context.threads,
        }),
      },
      on: {
        'engine.process_started': {
          guard: 'isThisAttempt',
          target: 'loading',
          actions: 'noteProcess',
        },
        ...failsToLoad,
        ...timesOut('noteStartTimeout'),
        ...crashes,
        ...stops,
      },
    },
    loading: {
      on: {
        'engine.model_loaded': { guard: 'isThisAttempt', target: 'warm', actions: 'noteLoaded' },
        ...failsToLoad,
        ...timesOut('noteLoadTimeout'),
        ...crashes,
        ...stops,
      },
    },
    warm: {
      initial: 'idle',
      on: { ...crashes, ...stops },
      states: {
        idle: { on: { 'engine.work_started': { target: 'busy', actions: 'noteBusy' } } },
        busy: {
          tags: ['stable'],
          on: { 'engine.work_finished': { target: 'idle', actions: 'noteIdle' } },
        },
      },
    },
    stopping: {
      entry: [
        'noteStopping',
        { type: 'stopEngine', params: ({ context }) => ({ attempt: context.attempt }) },
      ],
      initial: 'asked',
      on: { 'engine.exited': { guard: 'isThisAttempt', target: 'cold', actions: 'noteGone' } },
      states: {
        asked: { on: { 'engine.deadline_passed': { guard: 'isThisAttempt', target: 'killed' } } },
        killed: {
          entry: [
            'noteKilling',
            { type: 'killEngine', params: ({ context }) => ({ attempt: context.attempt }) },
          ],
          on: {
            'engine.deadline_passed': {
              guard: 'isThisAttempt',
              target: '#engine.crashed',
              actions: 'noteCrash',
            },
          },
        },
      },
    },
    crashed: {
      on: { 'engine.backoff_elapsed': { target: 'cold' } },
    },
  },
});

export type EngineSnapshot = SnapshotFrom<typeof engineMachine>;

/** What happens by itself if nothing else does. */
export function engineDeadlines(snapshot: EngineSnapshot): Deadline<EngineEvent>[] {
  const { due_at, attempt } = snapshot.context;
  if (snapshot.matches('starting') || snapshot.matches('loading') || snapshot.matches('stopping')) {
    return [{ at: due_at, event: { type: 'engine.deadline_passed', attempt } }];
  }
  if (snapshot.matches({ warm: 'idle' }))
    return [{ at: due_at, event: { type: 'engine.stop_requested', reason: 'idle' } }];
  if (snapshot.matches('crashed'))
    return [{ at: due_at, event: { type: 'engine.backoff_elapsed' } }];
  return [];
}
