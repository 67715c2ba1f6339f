import type { Failure } from '../../../machines/events.ts';
import {
  type CallEvent,
  type CallMade,
  type ToolCall,
  toolCallMachine,
} from '../../../machines/tool-call.ts';
import { type Model, model, NOW } from './model.ts';

const error: Failure = { code: 'tool_lost', message: 'The server died.', retryable: false };

/** The events of one call, in each payload class. */
export function callEvents(call: number): CallEvent[] {
  const of = { at: NOW, call };
  const requested = { ...of, type: 'run.tool_requested', server: 'files', tool: 'read' } as const;
  return [
    { ...requested, arguments: '{}', approval: 'ask', approve_until: NOW + 90_000 },
    { ...requested, arguments: '{}', approval: 'allow', repeatable: true },
    { ...of, type: 'run.tool_allowed', by: 'a person' },
    { ...of, type: 'run.tool_denied', by: 'policy', reason: 'not here' },
    { ...of, type: 'run.tool_started', time_limit_at: NOW + 8000 },
    { ...of, type: 'run.tool_reported', text: '1 of 2' },
    { ...of, type: 'run.tool_finished', text: 'page', is_error: false },
    { ...of, type: 'run.tool_lost', error },
    { ...of, type: 'run.tool_decided', decision: 'repeat', by: 'a person' },
    { ...of, type: 'run.tool_decided', decision: 'result', by: 'a person', text: 'page' },
    { ...of, type: 'run.tool_decided', decision: 'skip', by: 'a person' },
  ];
}

const created: CallMade = {
  type: 'tool_call.made',
  at: NOW - 1000,
  call: 1,
  id: 'call_1',
  name: 'files__read',
  arguments: '{}',
};

export function toolCallModel(): Model {
  return model({
    name: 'tool call',
    machine: toolCallMachine,
    created,
    samples: (): CallEvent[] => [
      ...callEvents(1),
      { type: 'run.recovered', at: NOW, downtime_ms: 0 },
      { type: 'run.cancel_requested', at: NOW, by: 'test' },
      { type: 'run.deadline_passed', at: NOW, deadline: 'total' },
      { type: 'run.failed', at: NOW, attempt: 1, error },
      { type: 'run.interrupted', at: NOW, error },
    ],
    key: (snapshot) => {
      const { approval, repeatable } = snapshot.context as ToolCall;
      return JSON.stringify([snapshot.value, approval, repeatable]);
    },
    stop: { type: 'run.cancel_requested', at: NOW, by: 'test' },
    isOver: ({ status }) => status === 'done',
    least: { states: 15, edges: 40, refused: 60 },
  });
}
