import { assign, type SnapshotFrom, setup } from 'xstate';
import type { EventOf } from '../src/contract/events.ts';
import type { EngineLoaded } from '../src/contract/loaded-models.ts';
import { type Effects, effect } from './effects.ts';
import type { Deadline, Failure } from './events.ts';
import { type Deadlines, type Meta, withRules } from './machine.ts';
import { ENGINE_CRASHED, ENGINE_KILLED } from './retry.ts';

/**
 * The process that runs one local model. Each model has its own machine.
 *
 * 1. At most one process of a machine exists. Its events carry the number of its attempt; events of
 *    an earlier attempt are refused.
 * 2. A process is gone when `engine.exited` says so, or is given up when it outlives its kill.
 * 3. A model that does not load in time is not retried: the next load would hang too.
 * 4. After a crash the engine waits. The wait doubles with each crash in a row, up to a bound.
 *    Finished work ends the row. When the system kills each load, memory is short: the bound is
 *    longer.
 * 5. An idle process is ended after `idle_ms`, which a load or finished work can change.
 */

type Later = 'batching' | 'gpu' | 'gpu_layers' | 'attention';
type OfModels = 'threads' | 'context_length' | 'parallel' | 'chat_template';
/** Old logs lack the later fields. A server that is not an engine of svc omits them. */
export interface EngineInfo
  extends Omit<EngineLoaded, Later | OfModels>,
    Partial<Pick<EngineLoaded, Later | OfModels>> {
  pid: number;
  model: string;
  path: string;
}

export type EngineCreated = EventOf<
  'engine.created',
  {
    /** Counts the engines of this boot. Old logs have one engine, without a number. */
    number?: number;
    start_ms: number;
    load_ms: number;
    stop_ms: number;
    kill_ms: number;
    idle_ms: number;
  }
>;

export type EngineEvent =
  /**
   * `threads`: the number that computed the recorded output of a resumed run. `idle_ms`: how long
   * this model stays in memory without work. `context_tokens`: a run needs a larger context than
   * usual.
   */
  | EventOf<
      'engine.load_requested',
      {
        attempt: number;
        model: string;
        path: string;
        threads?: number;
        idle_ms?: number;
        context_tokens?: number;
      }
    >
  | EventOf<'engine.process_started', { attempt: number; pid: number }>
  | EventOf<'engine.model_loaded', { attempt: number; info: EngineInfo }>
  | EventOf<'engine.load_failed', { attempt: number; error: Failure }>
  | EventOf<'engine.work_started'>
  /** `idle_ms`: how long the model stays in memory from now on. */
  | EventOf<'engine.work_finished', { idle_ms?: number }>
  | EventOf<
      'engine.stop_requested',
      /** `room`: another model needs its memory. `model_changed`: other threads are needed. */
      { reason: 'idle' | 'room' | 'model_changed' | 'daemon_stopping' | 'requested' }
    >
  | EventOf<'engine.deadline_passed', { attempt: number }>
  /** `reason`: why the daemon killed the process; or `outside`, if something else did. */
  | EventOf<
      'engine.exited',
      {
        attempt: number;
        exit_code: number | null;
        signal: string | null;
        reason?: 'memory' | 'outside';
      }
    >
  | EventOf<'engine.backoff_elapsed'>;

export interface EngineContext {
  /** Counts the engines of a boot. 0 in logs from before there was one engine per model. */
  number: number;
  attempt: number;
  model: string | null;
  path: string | null;
  /** The requested number of threads; null if the engine chooses. */
  threads: number | null;
  /** The context that a run needs; null: the usual. */
  context_tokens: number | null;
  info: EngineInfo | null;
  error: Failure | null;
  /** Crashes in a row, up to a bound. */
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
  code: ENGINE_CRASHED,
  message: 'The engine process died.',
  retryable: true,
};
const KILLED: Failure = {
  code: ENGINE_KILLED,
  message:
    'The system or a user killed the engine (SIGKILL) while it loaded the model. ' +
    'The system does that when memory is short.',
  retryable: true,
};
export const TOO_MUCH_MEMORY: Failure = {
  code: ENGINE_CRASHED,
  message:
    'The engine process was ended: it took more memory than it may have ' +
    '(memory_bytes of its model, or else limits.engine_memory_bytes).',
  retryable: false,
};

const START_TIMEOUT: Failure = {
  code: 'engine_timed_out',
  message: 'The engine process did not come up in time.',
  retryable: true,
};
const LOAD_TIMEOUT: Failure = {
  code: 'engine_timed_out',
  message: 'The engine took longer to load the model than engine_load_ms allows.',
  retryable: false,
};

export const CRASHES_COUNTED = 5;
export const KILLS_COUNTED = 8;
const BACKOFF_FIRST_MS = 250;

const chart = setup({
  types: {} as {
    tags: 'stable' | 'absent' | 'loading' | 'loaded' | 'free' | 'leaving' | 'failing';
    meta: Meta;
    context: EngineContext;
    events: EngineEvent;
    input: EngineCreated;
  },
  actions: {
    startEngine: effect('startEngine'),
    stopEngine: effect('stopEngine'),
    killEngine: effect('killEngine'),
    // The meaning of an exit or a deadline depends on the state.
    setStartTimeout: assign({ error: START_TIMEOUT }),
    setLoadTimeout: assign({ error: LOAD_TIMEOUT }),
    awaitExit: assign(({ context, event }) => ({
      since: event.at,
      due_at: event.at + context.stop_ms,
    })),
    awaitKill: assign(({ context, event }) => ({ due_at: event.at + context.kill_ms })),
    forgetModel: assign(({ event }) => ({ model: null, path: null, info: null, since: event.at })),
    countCrash: assign(({ context, event }) => countCrash(context, event)),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'engine.load_requested' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
  },
}).createMachine({
  id: 'engine',
  context: ({ input }) => ({
    number: input.number ?? 0,
    attempt: 0,
    model: null,
    path: null,
    threads: null,
    context_tokens: null,
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
      meta: { says: ['plain', 'No model is in memory.'] },
      tags: ['stable', 'absent'],
      on: { 'engine.load_requested': { guard: 'isNextAttempt', target: 'alive' } },
    },
    alive: {
      meta: { isGroup: true },
      initial: 'coming_up',
      on: {
        'engine.exited': { guard: 'isThisAttempt', target: 'crashed' },
        'engine.stop_requested': 'stopping',
      },
      states: {
        coming_up: {
          meta: { isGroup: true, deadline: 'came_up' },
          tags: ['loading'],
          initial: 'starting',
          on: { 'engine.load_failed': { guard: 'isThisAttempt', target: '#engine.stopping' } },
          states: {
            starting: {
              meta: { says: ['active', 'Its process starts.'] },
              entry: { type: 'startEngine', params: ({ context }) => startParams(context) },
              on: {
                'engine.process_started': { guard: 'isThisAttempt', target: 'loading' },
                'engine.deadline_passed': {
                  guard: 'isThisAttempt',
                  target: '#engine.stopping',
                  actions: 'setStartTimeout',
                },
              },
            },
            loading: {
              meta: { says: ['active', 'The model is read into memory.'] },
              on: {
                'engine.model_loaded': { guard: 'isThisAttempt', target: '#engine.alive.warm' },
                'engine.deadline_passed': {
                  guard: 'isThisAttempt',
                  target: '#engine.stopping',
                  actions: 'setLoadTimeout',
                },
              },
            },
          },
        },
        warm: {
          tags: ['loaded'],
          initial: 'idle',
          states: {
            idle: {
              meta: { says: ['good', 'The model is in memory and waits.'], deadline: 'idle' },
              tags: ['free'],
              on: { 'engine.work_started': 'busy' },
            },
            busy: {
              meta: { says: ['active', 'The model computes an answer.'] },
              tags: ['stable'],
              on: { 'engine.work_finished': 'idle' },
            },
          },
        },
      },
    },
    stopping: {
      meta: { deadline: 'stopped' },
      tags: ['leaving'],
      entry: [
        'awaitExit',
        {
          type: 'stopEngine',
          params: ({ context: { number, attempt } }) => ({ engine: number, attempt }),
        },
      ],
      initial: 'asked',
      on: { 'engine.exited': { guard: 'isThisAttempt', target: 'cold', actions: 'forgetModel' } },
      states: {
        asked: {
          meta: { says: ['warn', 'The model leaves memory.'] },
          on: { 'engine.deadline_passed': { guard: 'isThisAttempt', target: 'killed' } },
        },
        killed: {
          meta: { says: ['warn', 'Its process is killed.'] },
          entry: [
            'awaitKill',
            {
              type: 'killEngine',
              params: ({ context: { number, attempt } }) => ({ engine: number, attempt }),
            },
          ],
          on: { 'engine.deadline_passed': { guard: 'isThisAttempt', target: '#engine.crashed' } },
        },
      },
    },
    crashed: {
      meta: { says: ['bad', 'Its process died.'], deadline: 'backoff' },
      tags: ['failing'],
      entry: 'countCrash',
      on: { 'engine.backoff_elapsed': 'cold' },
    },
  },
});

export type EngineSnapshot = SnapshotFrom<typeof chart>;

const toDeadline = ({ context: { due_at, attempt } }: EngineSnapshot): Deadline<EngineEvent> => ({
  at: due_at,
  event: { type: 'engine.deadline_passed', attempt },
});

const deadlines: Deadlines<EngineSnapshot, EngineEvent> = {
  came_up: toDeadline,
  stopped: toDeadline,
  idle: ({ context }) => ({
    at: context.due_at,
    event: { type: 'engine.stop_requested', reason: 'idle' },
  }),
  backoff: ({ context }) => ({ at: context.due_at, event: { type: 'engine.backoff_elapsed' } }),
};

export const engineMachine = withRules(chart, { evolve, deadlines });

function startParams(context: EngineContext): Effects['startEngine'] {
  const { number, attempt, model, path, threads, context_tokens } = context;
  const start = { engine: number, attempt, model: model ?? '', path: path ?? '', threads };
  return context_tokens === null ? start : { ...start, context_tokens };
}

/** What an event changes, whatever the state is. */
function evolve(context: EngineContext, event: EngineEvent): Partial<EngineContext> {
  switch (event.type) {
    case 'engine.load_requested':
      return {
        attempt: event.attempt,
        model: event.model,
        path: event.path,
        threads: event.threads ?? null,
        context_tokens: event.context_tokens ?? null,
        info: null,
        error: null,
        since: event.at,
        due_at: event.at + context.start_ms,
        ...(event.idle_ms === undefined ? {} : { idle_ms: event.idle_ms }),
      };
    case 'engine.process_started':
      return { since: event.at, due_at: event.at + context.load_ms };
    case 'engine.model_loaded':
      return { info: event.info, since: event.at, due_at: event.at + context.idle_ms };
    case 'engine.load_failed':
      return { error: event.error };
    case 'engine.work_started':
      return { since: event.at };
    case 'engine.work_finished': {
      const { idle_ms = context.idle_ms } = event;
      return { crashes: 0, since: event.at, due_at: event.at + idle_ms, idle_ms };
    }
    case 'engine.stop_requested':
    case 'engine.deadline_passed':
    case 'engine.exited':
    case 'engine.backoff_elapsed':
      return {};
    default:
      return event satisfies never;
  }
}

function countCrash(context: EngineContext, event: EngineEvent): Partial<EngineContext> {
  const error = causeOf(context, event);
  const most = error === KILLED ? KILLS_COUNTED : CRASHES_COUNTED;
  const crashes = Math.min(most, context.crashes + 1);
  return {
    crashes,
    error,
    info: null,
    since: event.at,
    due_at: event.at + BACKOFF_FIRST_MS * 2 ** (crashes - 1),
  };
}

function causeOf({ info }: EngineContext, event: EngineEvent): Failure {
  if (event.type !== 'engine.exited') return DIED;
  if (event.reason === 'memory') return TOO_MUCH_MEMORY;
  return event.reason === 'outside' && info === null ? KILLED : DIED;
}
