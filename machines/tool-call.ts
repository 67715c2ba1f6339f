import { type AnyMachineSnapshot, type SnapshotFrom, setup } from 'xstate';
import type { EventOf, RunEvent } from '../src/contract/events.ts';
import type { ToolResultPart } from '../src/contract/messages/parts.ts';
import type { ToolPolicy } from '../src/contract/words.ts';
import { type Meta, withRules } from './machine.ts';
import { can, init, stateName, step } from './step.ts';

/**
 * One call of a tool that svc carries out for a run.
 *
 * 1. Its events are events of its run, which folds it. They have the number of the call.
 * 2. A call begins only after the log says that it was started.
 * 3. A call that was started and has no result may have done its work. Such a call never begins
 *    again by itself: it is `lost`, and a person decides. Only a call that may be repeated begins
 *    again.
 * 4. A call is `lost`, too, if several boots in a row ended at it. No further start ends at it.
 * 5. A call that needs an approval waits for it, and is denied when its time is over.
 * 6. When its run ends early: `dropped` was never started; `abandoned` was, with an unknown
 *    outcome.
 */

export type CallMade = EventOf<
  'tool_call.made',
  { call: number; id: string; name: string; arguments: string }
>;

/** The data of a call besides its state. */
export interface CallContext {
  /** Its number in the run. The first one has 1. */
  readonly call: number;
  /** Its id in the messages of the model. */
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it. */
  readonly arguments: string;
  readonly server: string | null;
  readonly tool: string | null;
  readonly approval: ToolPolicy | null;
  /** A call that may have done its work may be carried out again. */
  readonly repeatable: boolean;
  /** Digest of the tool when the call was requested. Only this version is allowed. */
  readonly digest: string | null;
  /** The description of the tool at that time, if a person decides. */
  readonly description: string | null;
  readonly requested_at: number | null;
  /** When a call that waits for an approval is denied. */
  readonly approve_until: number | null;
  /** Who allowed or denied it, and why. */
  readonly decided_by: string | null;
  readonly reason: string | null;
  /** Boots, and connections of its server, that ended while it was worked on, since a decision. */
  readonly losses: number;
  /** How often it was started. */
  readonly starts: number;
  readonly started_at: number | null;
  /** When it ends without an answer. */
  readonly time_limit_at: number | null;
  /** The last words of the server about it. Absent: it said nothing, or the log is old. */
  readonly report?: string;
  /** What the model gets. */
  readonly result: Pick<ToolResultPart, 'text' | 'is_error' | 'media'> | null;
  readonly ended_at: number | null;
}

export type CallEvent = Extract<
  RunEvent,
  | { call: number }
  | {
      type:
        | 'run.recovered'
        | 'run.cancel_requested'
        | 'run.deadline_passed'
        | 'run.failed'
        | 'run.interrupted';
    }
>;

/** The events that end the run of a call early. */
function endsIn<T extends 'dropped' | 'abandoned'>(state: T) {
  const target = `#tool_call.${state}` as const;
  return {
    'run.cancel_requested': target,
    'run.deadline_passed': target,
    'run.failed': target,
    'run.interrupted': target,
  };
}

const chart = setup({
  types: {} as { meta: Meta; context: CallContext; events: CallEvent; input: CallMade },
  guards: {
    mayRepeat: ({ context }) => context.repeatable,
    isRepeat: ({ event }) => event.type === 'run.tool_decided' && event.decision === 'repeat',
    // The call was given up before anyone decided about it.
    isFirstTry: ({ context, event }) =>
      event.type === 'run.tool_decided' && event.decision === 'repeat' && context.server === null,
  },
}).createMachine({
  id: 'tool_call',
  context: ({ input }) => ({
    call: input.call,
    id: input.id,
    name: input.name,
    arguments: input.arguments,
    server: null,
    tool: null,
    approval: null,
    repeatable: false,
    digest: null,
    description: null,
    requested_at: null,
    approve_until: null,
    decided_by: null,
    reason: null,
    losses: 0,
    starts: 0,
    started_at: null,
    time_limit_at: null,
    result: null,
    ended_at: null,
  }),
  initial: 'made',
  states: {
    made: {
      meta: { says: ['active', 'The model called a tool.'] },
      tags: ['stable'],
      on: {
        ...endsIn('dropped'),
        'run.tool_requested': 'requested',
        'run.tool_denied': 'denied',
        'run.tool_lost': 'lost',
        'run.recovered': {},
      },
    },
    requested: {
      meta: { says: ['warn', 'It waits until it is allowed.'] },
      tags: ['stable'],
      on: {
        ...endsIn('dropped'),
        'run.tool_allowed': 'allowed',
        'run.tool_denied': 'denied',
        'run.recovered': {},
      },
    },
    allowed: {
      meta: { says: ['active', 'It was allowed, and begins.'] },
      tags: ['stable'],
      on: {
        ...endsIn('dropped'),
        'run.tool_started': 'started',
        // Its server cannot be reached, so it surely did not begin.
        'run.tool_finished': 'finished',
        // The call was worked on before, and is given up.
        'run.tool_lost': 'lost',
      },
    },
    started: {
      meta: { says: ['active', 'The tool works.'] },
      tags: ['stable'],
      on: {
        ...endsIn('abandoned'),
        'run.tool_reported': {},
        'run.tool_finished': 'finished',
        'run.tool_lost': [{ guard: 'mayRepeat', target: 'allowed' }, { target: 'lost' }],
        'run.recovered': [{ guard: 'mayRepeat', target: 'allowed' }, { target: 'lost' }],
      },
    },
    lost: {
      meta: {
        says: [
          'warn',
          'It was cut off, and may have done its work. You decide what becomes of it.',
        ],
      },
      tags: ['stable'],
      on: {
        ...endsIn('abandoned'),
        'run.tool_decided': [
          { guard: 'isFirstTry', target: 'made' },
          { guard: 'isRepeat', target: 'allowed' },
          { target: 'finished' },
        ],
      },
    },
    denied: { meta: { says: ['plain', 'It was not carried out.'] }, type: 'final' },
    finished: { meta: { says: ['good', 'The tool has answered.'] }, type: 'final' },
    dropped: { meta: { says: ['plain', 'Its run ended before it began.'] }, type: 'final' },
    abandoned: { meta: { says: ['warn', 'Its run ended while it worked.'] }, type: 'final' },
  },
});

export const toolCallMachine = withRules(chart, { evolve });

export type CallState = SnapshotFrom<typeof chart>['value'];

function evolve(context: CallContext, event: CallEvent): Partial<CallContext> {
  const ended = { ended_at: event.at };
  switch (event.type) {
    case 'run.tool_requested': {
      const { server, tool, approval, approve_until = null } = event;
      const { repeatable = false, digest = null, description = null } = event;
      const what = { server, tool, digest, description, losses: 0 };
      return { ...what, approval, approve_until, repeatable, requested_at: event.at };
    }
    case 'run.tool_allowed':
      return { decided_by: event.by, losses: 0 };
    case 'run.tool_denied': {
      const { by, reason } = event;
      const result = { text: `The call was not carried out: ${reason}`, is_error: true };
      return { decided_by: by, reason, result, ...ended };
    }
    case 'run.tool_started':
      return {
        starts: context.starts + 1,
        started_at: event.at,
        time_limit_at: event.time_limit_at,
      };
    case 'run.tool_reported':
      return { report: event.text };
    case 'run.tool_finished': {
      const { text, is_error, media = [] } = event;
      return { result: { text, is_error, ...(media.length > 0 ? { media } : {}) }, ...ended };
    }
    case 'run.tool_decided':
      if (event.decision === 'repeat') return { losses: 0 };
      return event.decision === 'result'
        ? { result: { text: event.text ?? '', is_error: false }, ...ended }
        : { result: { text: RESULT_UNKNOWN, is_error: true }, ...ended };
    case 'run.recovered': {
      const { approve_until } = context;
      return {
        losses: context.losses + 1,
        approve_until: approve_until === null ? null : approve_until + event.downtime_ms,
      };
    }
    case 'run.tool_lost':
      // A call that is given up early is first shown to a person now.
      return { losses: context.losses + 1, requested_at: context.requested_at ?? event.at };
    default:
      return ended;
  }
}

/** The result that the model gets for a call that a person skips. */
const RESULT_UNKNOWN =
  'The result is not known: the call was cut off, and it may or may not have done its work.';

/** A call of a run, as plain data. */
export interface ToolCall extends CallContext {
  readonly state: CallState;
}

export function newCall(made: Omit<CallMade, 'type'>): ToolCall {
  return toCall(init(toolCallMachine, { type: 'tool_call.made', ...made }).snapshot);
}

/** The call after an event. Null: it does not take the event. */
export function callAfter(call: ToolCall, event: RunEvent): ToolCall | null {
  const { state, ...context } = call;
  const value = { value: state, context } as Parameters<typeof toolCallMachine.resolveState>[0];
  const snapshot: AnyMachineSnapshot = toolCallMachine.resolveState(value);
  return can(snapshot, event) ? toCall(step(toolCallMachine, snapshot, event).snapshot) : null;
}

function toCall(snapshot: AnyMachineSnapshot): ToolCall {
  return { ...(snapshot.context as CallContext), state: stateName(snapshot) as CallState };
}

/** Whether the model gets how the call ended. */
export function hasEnded({ state }: ToolCall): boolean {
  return state === 'finished' || state === 'denied';
}

/** Whether the call waits for a person to allow or deny it. */
export function awaitsApproval({ state, approval }: ToolCall): boolean {
  return state === 'requested' && approval === 'ask';
}
