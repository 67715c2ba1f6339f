import type { Failure } from '../../../machines/events.ts';
import { type RunSnapshot, runMachine } from '../../../machines/run/chart.ts';
import type { Recovery, RunContext, RunCreated, RunEvent } from '../../../machines/run/context.ts';
import { CANCELLED_BY_DISK_FULL } from '../../../machines/run/context.ts';
import { runEventSchemas, type Target } from '../../../src/contract/events.ts';
import { shortMessages } from '../../../src/contract/messages/parts.ts';
import { madeOf } from '../../helpers/made-of.ts';
import { type Model, model, NOW } from './model.ts';
import { callEvents } from './tool-call.ts';

export const retryable: Failure = {
  code: 'provider_unreachable',
  message: 'The provider does not answer.',
  retryable: true,
};
/** No reason to ask again there, and none why another target could not answer. */
export const modelMissing: Failure = {
  code: 'model_unknown',
  message: 'The provider has no such model.',
  retryable: false,
};
export const lasting: Failure = {
  code: 'provider_rejected',
  message: 'The provider did not accept the request.',
  retryable: false,
};
/** Another target than the next one of any model. */
const foreign: Target = { provider: 'far', model: 'm9', cloud: true };
/** States in which a call takes no event any more. */
const ENDED: ReadonlySet<string> = new Set(['finished', 'denied', 'dropped', 'abandoned']);
/** A tool that svc calls. */
const SERVED = {
  name: 'files__read',
  description: null,
  parameters: {},
  server: 'files',
  tool: 'read',
};
const usage = { input_tokens: 3, output_tokens: 2 };

export interface RunBounds {
  recovery: Recovery;
  resumable: boolean;
  max_attempts: number;
  max_losses: number;
  /** Outputs are counted up to this number. */
  outputs: number;
  /** The log does not hold what was asked. */
  omitted?: boolean;
  /** svc carries out calls of the model: so many in its first turn. */
  calls?: number;
  /** The model is asked once more for the form of its answer. */
  asks_again?: boolean;
  /** The targets after the first one. */
  fallbacks?: readonly Target[];
  least: Model['least'];
}

/** The key only says whether there was an attempt: the samples use relative numbers. */
export function runModel({
  recovery,
  resumable,
  max_attempts,
  max_losses,
  outputs,
  omitted = false,
  calls = 0,
  asks_again = false,
  fallbacks,
  least,
}: RunBounds): Model {
  const created: RunCreated = {
    type: 'run.accepted',
    at: NOW - 1000,
    run_id: 'run_1',
    request: {
      provider: 'local',
      model: 'svc-mini',
      cloud: false,
      messages: shortMessages('Hello', null),
      max_tokens: null,
      temperature: null,
      seed: 1,
      seed_asked: true,
      ...(calls === 0 ? {} : { tools: [SERVED] }),
    },
    ...(fallbacks === undefined ? {} : { fallbacks }),
    idempotency_key: null,
    client: 'test',
    recovery,
    ...(asks_again ? { ask_again: true } : {}),
    resumable,
    ...(omitted ? { content: 'omitted' } : {}),
    max_attempts,
    target_attempts: Math.min(2, max_attempts),
    max_losses,
    queue_deadline_at: NOW + 50_000,
    deadline_at: NOW + 60_000,
    first_output_ms: 5000,
    idle_ms: 2000,
    cancel_grace_ms: 1000,
  };
  const written = (attempt: number, left: readonly Target[]): RunEvent[] => [
    ...[attempt, attempt + 1, attempt + 2].flatMap((of): RunEvent[] => [
      { type: 'run.started', at: NOW, attempt: of, resumes: false },
      { type: 'run.started', at: NOW, attempt: of, resumes: true },
    ]),
    ...[attempt, attempt - 1, attempt + 1].flatMap((of): RunEvent[] => [
      { type: 'run.output_appended', at: NOW, attempt: of, text: 'Hi', token_ids: [7, 8] },
      { type: 'run.completed', at: NOW, attempt: of, finish_reason: 'stop', usage },
      { type: 'run.attempt_failed', at: NOW, attempt: of, error: retryable, retry_at: NOW + 500 },
      { type: 'run.attempt_failed', at: NOW, attempt: of, error: lasting, retry_at: NOW + 500 },
      ...[...left.slice(0, 2), foreign].map((next) => goesOn(of, retryable, next)),
      { type: 'run.sent_to_cloud', at: NOW, attempt: of, provider: 'far', model: 'm9', bytes: 20 },
      { type: 'run.failed', at: NOW, attempt: of, error: lasting },
      ...[undefined, 0, 1, 2].map(
        (computing): RunEvent => ({
          type: 'run.suspended',
          at: NOW,
          attempt: of,
          error: retryable,
          ...(computing === undefined ? {} : { computing }),
        }),
      ),
    ]),
    ...left
      .slice(0, 1)
      .flatMap((next) => [lasting, modelMissing].map((error) => goesOn(attempt, error, next))),
    // Another test checks how a downtime moves the deadlines. Here it is zero.
    { type: 'run.recovered', at: NOW, downtime_ms: 0 },
    { type: 'run.cancel_requested', at: NOW, by: 'test' },
    { type: 'run.cancel_requested', at: NOW, by: CANCELLED_BY_DISK_FULL },
    ...(['queue', 'total', 'first_output', 'idle'] as const).map(
      (deadline): RunEvent => ({ type: 'run.deadline_passed', at: NOW, deadline }),
    ),
    ...[true, false].flatMap((forced): RunEvent[] => [
      { type: 'run.cancelled', at: NOW, forced },
      { type: 'run.timed_out', at: NOW, forced },
    ]),
  ];
  const samplesOf = (...of: Parameters<typeof written>): RunEvent[] => {
    const events = written(...of);
    return [...events, ...madeEvents(of[0], new Set(events.map(({ type }) => type)))];
  };
  const toolSamples = (context: RunContext): RunEvent[] => [
    ...(context.turns.length > 0 || callsIn(context) >= calls
      ? []
      : [
          {
            type: 'run.output_appended' as const,
            at: NOW,
            attempt: context.attempt,
            text: '{}',
            token_ids: [9],
            kind: 'tool_call' as const,
            call: { id: `call_${callsIn(context)}`, name: SERVED.name, server: SERVED.server },
          },
        ]),
    ...[context.attempt, context.attempt + 1].map(
      (of): RunEvent => ({ type: 'run.turn_completed', at: NOW, attempt: of, usage }),
    ),
    ...callEvents(1),
    // One kind of a further call is enough.
    ...callEvents(2).filter((event) => !('repeatable' in event || 'decision' in event)),
    ...callEvents(3).slice(0, 1),
  ];
  /** Long lives ask for them at every step. */
  const samples = new Map<string, RunEvent[]>();
  return model<RunSnapshot>({
    name: `run (${recovery}${calls === 0 ? '' : `, ${calls} calls`}${resumable ? ', resumable' : ''}${asks_again ? ', asked again' : ''}${omitted ? ', content omitted' : ''}${fallbacks === undefined ? '' : `, ${fallbacks.length + 1} targets`})`,
    machine: runMachine,
    created,
    samples: ({ context }) => {
      const { attempt, fallbacks: left } = context;
      const place = `${attempt}, ${left.length} left`;
      const known = samples.get(place) ?? samplesOf(attempt, left);
      samples.set(place, known);
      if (calls === 0) return known;
      // The other models have the events of other attempts.
      const own = known.filter((event) => !('attempt' in event) || event.attempt === attempt);
      return [...own, ...starts(attempt), ...toolSamples(context)];
    },
    key: ({ value, context }) =>
      JSON.stringify([
        value,
        Math.min(2, context.attempt),
        Math.min(outputs, context.outputs),
        context.failures,
        context.fallbacks.length,
        context.deaths,
        context.isolated,
        context.withdrawn,
        ...(calls === 0 ? [] : [callsIn(context), context.turns.length]),
        ...context.calls.map((call) =>
          ENDED.has(call.state) ? 'ended' : [call.state, call.approval, call.repeatable],
        ),
      ]),
    stop: { type: 'run.cancel_requested', at: NOW, by: 'test' },
    isOver: (snapshot) => snapshot.status === 'done',
    least,
  });
}

/** Events without payload classes, from their schemas. Those of calls have their own model. */
function madeEvents(attempt: number, written: ReadonlySet<string>): RunEvent[] {
  return Object.entries(runEventSchemas).flatMap(([type, schema]) =>
    written.has(type) || type === 'run.accepted' || 'call' in schema.entries
      ? []
      : [{ ...madeOf(schema), ...('attempt' in schema.entries ? { attempt } : {}), type, at: NOW }],
  ) as RunEvent[];
}

function starts(attempt: number): RunEvent[] {
  const of = { type: 'run.started', at: NOW, attempt: attempt + 1 } as const;
  return [
    { ...of, resumes: false },
    { ...of, resumes: true },
  ];
}

/** The calls of the present turn. */
function callsIn({ parts }: RunContext): number {
  return parts.filter(({ type }) => type === 'tool_call').length;
}

function goesOn(attempt: number, error: Failure, next: Target): RunEvent {
  return { type: 'run.attempt_failed', at: NOW, attempt, error, retry_at: NOW, next };
}
