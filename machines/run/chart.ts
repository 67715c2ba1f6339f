import { assign, type SnapshotFrom, setup } from 'xstate';
import type { RunState } from '../../src/contract/words.ts';
import { effect } from '../effects.ts';
import { type Meta, withRules } from '../machine.ts';
import { canResume, canRetry, isNextTarget, mayResume } from '../retry.ts';
import { stateName } from '../step.ts';
import type { DeadlineName, RunCreated, RunEvent } from './context.ts';
import { countLoss, evolve, newContext, phaseAfter, type RunContext } from './context.ts';
import { runDeadlines } from './next.ts';
import { callParts, callsAfter, mayAskAgain, type Phase } from './turns.ts';

/** The target of an event of a call: the phase of the calls after it. */
const TO_PHASE = (
  [
    ['continuing', '#run.open.waiting.continuing'],
    ['calling', '#run.open.tools.calling'],
    ['awaiting_decision', '#run.open.tools.awaiting_decision'],
    ['awaiting_approval', '#run.open.tools.awaiting_approval'],
  ] as const satisfies (readonly [Phase, string])[]
).map(([phase, target]) => ({ guard: { type: 'leadsTo' as const, params: { phase } }, target }));

/**
 * One prompt and its answer.
 *
 * 1. A run reaches exactly one final state, by one terminal event. It accepts nothing after it.
 * 2. An event of an attempt carries its number. Events of earlier attempts are refused.
 * 3. A further attempt never repeats output. It starts without output, continues it, or discards it
 *    as the recovery policy says.
 * 4. Every state but the final ones has a deadline. It accepts a cancel, or already leads to an
 *    end.
 * 5. `cancelling` ends when the work has stopped, or when its grace time is over.
 * 6. A `suspended` run has no work. It waits to continue, in this boot or in the next.
 * 7. The death of the daemon never ends a local run early. It ends another one only after many in a
 *    row without new text. Deaths of the engine do only if no other run can have caused them.
 * 8. A run moves to its next target only without output, and waits there for its turn. So at most
 *    one target is in an answer.
 * 9. A run that the engine computed when it died is isolated, so the next death has one cause.
 * 10. A turn of the model that calls tools ends its attempt. The next turn begins when each call
 *     has its result. Only work waits in `calling`: a wait for a person takes no place and no time
 *     of the run.
 * 11. An answer without the requested form can become one more turn, once.
 */
const chart = setup({
  types: {} as {
    tags: 'waiting' | 'queued' | 'active' | 'calling' | 'paused' | 'stable';
    meta: Meta;
    context: RunContext;
    events: RunEvent;
    input: RunCreated;
  },
  actions: {
    startAttempt: effect('startAttempt'),
    stopAttempt: effect('stopAttempt'),
    callTools: effect('callTools'),
    countLoss: assign(({ context, event }) => countLoss(context, event)),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'run.started' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
    isDeadline: ({ event }, params: { name: DeadlineName }) =>
      event.type === 'run.deadline_passed' && event.deadline === params.name,
    isOfCall: ({ context, event }) => callsAfter(context.calls, event) !== null,
    leadsTo: ({ context, event }, params: { phase: Phase }) =>
      phaseAfter(context, event) === params.phase,
    callsTools: ({ context, event }) =>
      event.type === 'run.turn_completed' &&
      event.attempt === context.attempt &&
      callParts(context.parts).length > 0,
    asksAgain: ({ context, event }) =>
      event.type === 'run.asked_again' && event.attempt === context.attempt && mayAskAgain(context),
    mayResume: ({ context }) => mayResume(context),
    mayResumeAttempt: ({ context, event }) =>
      'attempt' in event && event.attempt === context.attempt && mayResume(context),
    canResumeAttempt: ({ context, event }) =>
      event.type === 'run.suspended' &&
      event.attempt === context.attempt &&
      canResume(context, event.computing),
    canRetry: ({ context, event }) =>
      event.type === 'run.attempt_failed' &&
      event.attempt === context.attempt &&
      event.next === undefined &&
      canRetry(context, event.error),
    canMove: ({ context, event }) =>
      event.type === 'run.attempt_failed' &&
      event.attempt === context.attempt &&
      event.next !== undefined &&
      isNextTarget(context, event.error, event.next),
  },
}).createMachine({
  id: 'run',
  context: ({ input }) => newContext(input),
  initial: 'open',
  states: {
    open: {
      meta: { isGroup: true, deadline: 'total' },
      initial: 'waiting',
      on: {
        'run.cancel_requested': 'cancelling.by_request',
        'run.deadline_passed': {
          guard: { type: 'isDeadline', params: { name: 'total' } },
          target: 'cancelling.by_deadline',
        },
      },
      states: {
        waiting: {
          meta: { isGroup: true },
          tags: ['waiting'],
          initial: 'queued',
          on: {
            'run.started': { guard: 'isNextAttempt', target: 'attempting' },
            'run.recovered': {},
          },
          states: {
            queued: {
              meta: { says: ['plain', 'It waits for its turn.'], deadline: 'queue' },
              tags: ['queued'],
              on: {
                'run.interrupted': '#run.interrupted',
                'run.deadline_passed': {
                  guard: { type: 'isDeadline', params: { name: 'queue' } },
                  target: '#run.cancelling.by_deadline',
                },
              },
            },
            suspended: {
              meta: { says: ['warn', 'The daemon went away. It continues by itself.'] },
            },
            continuing: {
              meta: { says: ['plain', 'The tools have answered. It waits for its next turn.'] },
            },
          },
        },
        tools: {
          meta: { isGroup: true, deadline: 'approval' },
          initial: 'calling',
          on: {
            'run.tool_requested': TO_PHASE,
            'run.tool_allowed': TO_PHASE,
            'run.tool_denied': TO_PHASE,
            'run.tool_started': TO_PHASE,
            'run.tool_finished': TO_PHASE,
            'run.tool_lost': TO_PHASE,
            'run.tool_decided': TO_PHASE,
            'run.recovered': TO_PHASE,
            'run.failed': { guard: 'isThisAttempt', target: '#run.failed' },
            'run.interrupted': '#run.interrupted',
          },
          states: {
            calling: {
              meta: { says: ['active', 'The tools that the model called work.'], deadline: 'call' },
              tags: ['calling'],
              entry: { type: 'callTools', params: ({ context: { run_id } }) => ({ run_id }) },
              // No other call depends on a report, so this does not enter the state again.
              on: { 'run.tool_reported': { guard: 'isOfCall' } },
            },
            awaiting_decision: {
              meta: { says: ['warn', 'A tool was cut off. You decide what becomes of its call.'] },
              tags: ['paused', 'stable'],
            },
            awaiting_approval: {
              meta: { says: ['warn', 'The model wants to call a tool, and needs your approval.'] },
              tags: ['paused'],
            },
          },
        },
        attempting: {
          meta: { isGroup: true },
          tags: ['active'],
          initial: 'working',
          on: {
            'run.recovered': {
              guard: 'mayResume',
              target: 'waiting.suspended',
              actions: 'countLoss',
            },
            'run.interrupted': '#run.interrupted',
            'run.interrupt_requested': '#run.cancelling.by_stop',
          },
          states: {
            working: {
              meta: { isGroup: true },
              initial: 'starting',
              on: {
                'run.completed': { guard: 'isThisAttempt', target: '#run.completed' },
                'run.failed': { guard: 'isThisAttempt', target: '#run.failed' },
                'run.turn_completed': { guard: 'callsTools', target: '#run.open.tools' },
                'run.asked_again': { guard: 'asksAgain', target: '#run.open.waiting.continuing' },
                'run.suspended': {
                  guard: 'canResumeAttempt',
                  target: '#run.open.waiting.suspended',
                  actions: 'countLoss',
                },
              },
              states: {
                starting: {
                  meta: {
                    says: ['active', 'It was sent to the model, and waits for the first token.'],
                    deadline: 'first_output',
                  },
                  entry: {
                    type: 'startAttempt',
                    params: ({ context: { run_id, attempt } }) => ({ run_id, attempt }),
                  },
                  on: {
                    'run.output_appended': { guard: 'isThisAttempt', target: 'streaming' },
                    'run.sent_to_cloud': { guard: 'isThisAttempt' },
                    'run.attempt_failed': [
                      { guard: 'canMove', target: '#run.open.waiting.queued' },
                      { guard: 'canRetry', target: '#run.open.attempting.backoff' },
                    ],
                    'run.deadline_passed': {
                      guard: { type: 'isDeadline', params: { name: 'first_output' } },
                      target: '#run.cancelling.by_deadline',
                    },
                  },
                },
                streaming: {
                  meta: { says: ['active', 'The model answers.'], deadline: 'idle' },
                  on: {
                    'run.output_appended': { guard: 'isThisAttempt' },
                    'run.deadline_passed': {
                      guard: { type: 'isDeadline', params: { name: 'idle' } },
                      target: '#run.cancelling.by_deadline',
                    },
                  },
                },
              },
            },
            backoff: {
              meta: {
                says: ['warn', 'An attempt failed. It tries again soon.'],
                deadline: 'retry',
              },
              on: { 'run.started': { guard: 'isNextAttempt', target: 'working' } },
            },
          },
        },
      },
    },
    cancelling: {
      meta: { deadline: 'grace' },
      tags: ['active'],
      initial: 'by_request',
      states: {
        by_request: {
          meta: { says: ['warn', 'You cancelled it. Its work ends.'] },
          entry: {
            type: 'stopAttempt',
            params: ({ context: { run_id } }) => ({ run_id, outcome: 'cancelled' }),
          },
          on: { 'run.cancelled': '#run.cancelled' },
        },
        by_deadline: {
          meta: { says: ['warn', 'Its time is over. Its work ends.'] },
          entry: {
            type: 'stopAttempt',
            params: ({ context: { run_id } }) => ({ run_id, outcome: 'timed_out' }),
          },
          on: { 'run.timed_out': '#run.timed_out' },
        },
        by_stop: {
          meta: { says: ['warn', 'The daemon stops. Its work ends.'] },
          entry: {
            type: 'stopAttempt',
            params: ({ context: { run_id } }) => ({ run_id, outcome: 'interrupted' }),
          },
          on: {
            // The run would continue in the next boot; a client can still cancel it.
            'run.cancel_requested': 'by_request',
            'run.suspended': { guard: 'mayResumeAttempt', target: '#run.open.waiting.suspended' },
            'run.recovered': { guard: 'mayResume', target: '#run.open.waiting.suspended' },
            'run.interrupted': '#run.interrupted',
          },
        },
      },
    },
    completed: { meta: { says: ['good', 'The answer is complete.'] }, type: 'final' },
    failed: { meta: { says: ['bad', 'It failed.'] }, type: 'final' },
    cancelled: { meta: { says: ['plain', 'It was cancelled.'] }, type: 'final' },
    timed_out: { meta: { says: ['bad', 'It took longer than it may.'] }, type: 'final' },
    interrupted: {
      meta: { says: ['bad', 'It was cut off and was not continued.'] },
      type: 'final',
    },
  },
});

export type RunSnapshot = SnapshotFrom<typeof chart>;

/** The state of a run as users list it. One that `RUN_STATES` lacks is refused here. */
export function runState(snapshot: RunSnapshot): RunState {
  return stateName(snapshot) as Outer<RunSnapshot['value']>;
}

/** What is around the states in `open` are groups, so these are outer states. */
type Outer<V> = V extends string ? V : V extends { open: infer Inner } ? Leaf<Inner> : keyof V;
type Leaf<V> = V extends string ? V : { [K in keyof V]: Leaf<V[K]> }[keyof V];

export const runMachine = withRules(chart, { evolve, deadlines: runDeadlines });
