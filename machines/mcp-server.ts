import { assign, type SnapshotFrom, setup } from 'xstate';
import type { EventOf } from '../src/contract/events.ts';
import type { McpServerRecord } from '../src/contract/mcp.ts';
import { type Effects, effect } from './effects.ts';
import type { Deadline, Failure } from './events.ts';
import { type Deadlines, type Meta, withRules } from './machine.ts';

/**
 * One tool server (MCP): a child process, a session over HTTP, or svc itself. Each has its own
 * machine.
 *
 * 1. A server starts when its tools are needed. It is ready when it has listed them.
 * 2. Its events carry the number of its attempt. Events of an earlier attempt are refused.
 * 3. After a failure it waits. The wait doubles with each failure in a row. A call that ends with a
 *    result ends the row.
 * 4. Several failures in a row open the circuit, and so does a failure that is not retryable. The
 *    waits are longer then. A person who tests the server does not wait.
 * 5. An idle server is stopped after `idle_ms`. One that does not end in time is killed.
 */

export interface McpServerInfo {
  /** Null: it has no process. */
  pid: number | null;
  /** Its name and version, as it says. */
  server: string | null;
  protocol: string | null;
  tools: number;
  /** Tools over a bound, which no run can use. */
  left_out: number;
}

export type McpServerCreated = EventOf<
  'mcp.created',
  {
    name: string;
    /** Counts the servers of this boot. */
    number: number;
    transport: McpServerRecord['transport'];
    start_ms: number;
    stop_ms: number;
    idle_ms: number;
  }
>;

export type McpServerEvent =
  | EventOf<'mcp.start_requested', { attempt: number }>
  | EventOf<'mcp.ready', { attempt: number; info: McpServerInfo }>
  /** The server changed its tools while it ran. */
  | EventOf<'mcp.tools_listed', { attempt: number; info: McpServerInfo }>
  | EventOf<'mcp.start_failed', { attempt: number; error: Failure }>
  /** The first of several simultaneous calls. */
  | EventOf<'mcp.call_started'>
  /** The last of the simultaneous calls. */
  | EventOf<'mcp.call_finished'>
  | EventOf<'mcp.stop_requested', { reason: 'idle' | 'changed' | 'requested' | 'daemon_stopping' }>
  | EventOf<'mcp.deadline_passed', { attempt: number }>
  /** The process has exited, or the connection is gone. */
  | EventOf<
      'mcp.ended',
      { attempt: number; exit_code: number | null; signal: string | null; error?: Failure }
    >
  | EventOf<'mcp.wait_ended'>;

export interface McpServerContext {
  name: string;
  number: number;
  transport: McpServerRecord['transport'];
  attempt: number;
  info: McpServerInfo | null;
  error: Failure | null;
  /** Failures in a row, up to a bound. */
  failures: number;
  since: number;
  due_at: number;
  start_ms: number;
  stop_ms: number;
  idle_ms: number;
}

/** Number of failures in a row that opens the circuit. */
export const FAILURES_TO_OPEN = 5;
export const FAILURES_COUNTED = 9;
const WAIT_FIRST_MS = 500;
const OPEN_FIRST_MS = 30_000;

const unavailable = (message: string): Failure => ({
  code: 'mcp_unavailable',
  message,
  retryable: true,
});
const DIED = unavailable('The tool server ended by itself.');
const START_TIMEOUT = unavailable('The tool server did not come up in time.');
const STOP_TIMEOUT = unavailable('The tool server did not end when it was asked to.');

const chart = setup({
  types: {} as {
    tags: 'stable' | 'absent' | 'starting' | 'ready' | 'leaving' | 'failing' | 'open';
    meta: Meta;
    context: McpServerContext;
    events: McpServerEvent;
    input: McpServerCreated;
  },
  actions: {
    startToolServer: effect('startToolServer'),
    stopToolServer: effect('stopToolServer'),
    killToolServer: effect('killToolServer'),
    awaitEnd: assign(({ context, event }) => ({
      since: event.at,
      due_at: event.at + context.stop_ms,
    })),
    rest: assign(({ event }) => ({ info: null, since: event.at })),
    countFailure: assign(({ context, event }) => countFailure(context, event)),
    setStartTimeout: assign({ error: START_TIMEOUT }),
    setStopTimeout: assign({ error: STOP_TIMEOUT }),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'mcp.start_requested' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => isThisAttempt(context, event),
    opens: ({ context, event }) =>
      isThisAttempt(context, event) &&
      (context.failures + 1 >= FAILURES_TO_OPEN || failureOf(event)?.retryable === false),
  },
}).createMachine({
  id: 'mcp',
  context: ({ input }) => ({
    name: input.name,
    number: input.number,
    transport: input.transport,
    attempt: 0,
    info: null,
    error: null,
    failures: 0,
    since: input.at,
    due_at: 0,
    start_ms: input.start_ms,
    stop_ms: input.stop_ms,
    idle_ms: input.idle_ms,
  }),
  initial: 'absent',
  states: {
    absent: {
      meta: { isGroup: true },
      tags: ['absent'],
      initial: 'stopped',
      on: { 'mcp.start_requested': { guard: 'isNextAttempt', target: 'alive' } },
      states: {
        stopped: {
          meta: { says: ['plain', 'Its process does not run. The next call starts it.'] },
          tags: ['stable'],
        },
        failing: {
          meta: {
            says: ['warn', 'It failed. It is started again after a pause.'],
            deadline: 'wait',
          },
          tags: ['failing'],
          entry: [
            'countFailure',
            { type: 'killToolServer', params: ({ context }) => idOf(context) },
          ],
          on: { 'mcp.wait_ended': 'stopped' },
        },
        open: {
          meta: {
            says: ['bad', 'It failed several times in a row, so it is not started for a while.'],
            deadline: 'wait',
          },
          tags: ['failing', 'open'],
          entry: [
            'countFailure',
            { type: 'killToolServer', params: ({ context }) => idOf(context) },
          ],
          on: { 'mcp.wait_ended': 'stopped' },
        },
      },
    },
    alive: {
      meta: { isGroup: true },
      initial: 'starting',
      on: {
        'mcp.ended': [
          { guard: 'opens', target: 'absent.open' },
          { guard: 'isThisAttempt', target: 'absent.failing' },
        ],
        'mcp.stop_requested': 'stopping',
      },
      states: {
        starting: {
          meta: { says: ['active', 'It starts, and lists its tools.'], deadline: 'start' },
          tags: ['starting'],
          entry: { type: 'startToolServer', params: ({ context }) => idOf(context) },
          on: {
            'mcp.ready': { guard: 'isThisAttempt', target: 'ready' },
            'mcp.start_failed': [
              { guard: 'opens', target: '#mcp.absent.open' },
              { guard: 'isThisAttempt', target: '#mcp.absent.failing' },
            ],
            'mcp.deadline_passed': [
              { guard: 'opens', target: '#mcp.absent.open', actions: 'setStartTimeout' },
              { guard: 'isThisAttempt', target: '#mcp.absent.failing', actions: 'setStartTimeout' },
            ],
          },
        },
        ready: {
          tags: ['ready'],
          initial: 'idle',
          on: { 'mcp.tools_listed': { guard: 'isThisAttempt' } },
          states: {
            idle: {
              meta: { says: ['good', 'It waits for calls.'], deadline: 'idle' },
              on: { 'mcp.call_started': 'busy' },
            },
            busy: {
              meta: { says: ['active', 'A tool works.'] },
              tags: ['stable'],
              on: { 'mcp.call_finished': 'idle' },
            },
          },
        },
      },
    },
    stopping: {
      meta: { says: ['warn', 'Its process ends.'], deadline: 'stop' },
      tags: ['leaving'],
      entry: ['awaitEnd', { type: 'stopToolServer', params: ({ context }) => idOf(context) }],
      on: {
        'mcp.ended': { guard: 'isThisAttempt', target: 'absent.stopped', actions: 'rest' },
        'mcp.deadline_passed': [
          { guard: 'opens', target: 'absent.open', actions: 'setStopTimeout' },
          { guard: 'isThisAttempt', target: 'absent.failing', actions: 'setStopTimeout' },
        ],
      },
    },
  },
});

export type McpServerSnapshot = SnapshotFrom<typeof chart>;

const deadlines: Deadlines<McpServerSnapshot, McpServerEvent> = {
  start: toDeadline,
  stop: toDeadline,
  idle: ({ context }) => ({
    at: context.due_at,
    event: { type: 'mcp.stop_requested', reason: 'idle' },
  }),
  wait: ({ context }) => ({ at: context.due_at, event: { type: 'mcp.wait_ended' } }),
};

export const mcpServerMachine = withRules(chart, { evolve, deadlines });

function toDeadline({ context }: McpServerSnapshot): Deadline<McpServerEvent> {
  return { at: context.due_at, event: { type: 'mcp.deadline_passed', attempt: context.attempt } };
}

/** What an event changes, whatever the state is. */
function evolve(context: McpServerContext, event: McpServerEvent): Partial<McpServerContext> {
  switch (event.type) {
    case 'mcp.start_requested': {
      const { attempt, at } = event;
      return { attempt, info: null, error: null, since: at, due_at: at + context.start_ms };
    }
    case 'mcp.ready':
      return { info: event.info, since: event.at, due_at: event.at + context.idle_ms };
    case 'mcp.tools_listed':
      return { info: event.info };
    case 'mcp.call_started':
      return { since: event.at };
    case 'mcp.call_finished':
      return { failures: 0, since: event.at, due_at: event.at + context.idle_ms };
    case 'mcp.wait_ended':
      return { since: event.at };
    case 'mcp.start_failed':
    case 'mcp.ended':
    case 'mcp.stop_requested':
    case 'mcp.deadline_passed':
      return {};
    default:
      return event satisfies never;
  }
}

function countFailure(context: McpServerContext, event: McpServerEvent): Partial<McpServerContext> {
  const failures = Math.min(FAILURES_COUNTED, context.failures + 1);
  const error = event.type === 'mcp.deadline_passed' ? context.error : (failureOf(event) ?? DIED);
  const opens = failures >= FAILURES_TO_OPEN || error?.retryable === false;
  const wait = opens
    ? OPEN_FIRST_MS * 2 ** Math.max(0, failures - FAILURES_TO_OPEN)
    : WAIT_FIRST_MS * 2 ** (failures - 1);
  return { failures, error, info: null, since: event.at, due_at: event.at + wait };
}

function failureOf(event: McpServerEvent): Failure | undefined {
  return event.type === 'mcp.start_failed' || event.type === 'mcp.ended' ? event.error : undefined;
}

function isThisAttempt(context: McpServerContext, event: McpServerEvent): boolean {
  return 'attempt' in event && event.attempt === context.attempt;
}

function idOf({ number, attempt }: McpServerContext): Effects['startToolServer'] {
  return { number, attempt };
}
