import type { AnyMachineSnapshot } from 'xstate';
import type { Failure } from '../../../machines/events.ts';
import { targetName } from '../../../machines/failover.ts';
import { type RunSnapshot, runState } from '../../../machines/run/chart.ts';
import type { FailedAttempt } from '../../../machines/run/context.ts';
import { messagesIn } from '../../../machines/run/turns.ts';
import { isIn } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { RunRecord } from '../../contract/contract.ts';
import type { Completion } from '../../contract/events.ts';
import {
  countOpaque,
  filesIn,
  isMedia,
  isShort,
  type Message,
  partsIn,
  promptOf,
  type RunRequest,
  systemOf,
} from '../../contract/messages/parts.ts';
import { recordedNames } from '../../contract/options.ts';
import { type ErrorBody, fillHint, fromBody, SvcError } from '../../errors.ts';
import { foldStream } from '../../kernel/fold.ts';
import type { EventStore, RunRow, StoredEvent } from '../../kernel/store/port.ts';
import { isRun } from '../../kernel/stream.ts';
import { fileRecord } from './event-record.ts';
import { keyOf } from './keys.ts';
import { speedOf } from './speed.ts';
import { usageOf } from './usage-of.ts';

export function runRecord(
  snapshot: RunSnapshot,
  seq: number,
  queue_position: number | null = null,
): RunRecord {
  const { context } = snapshot;
  const { request } = context;
  return {
    id: context.run_id,
    state: runState(snapshot),
    provider: request.provider,
    model: request.model,
    cloud: request.cloud,
    prompt: promptOf(request),
    system: systemOf(request),
    ...conversation(request),
    output: context.output,
    ...(context.parts.length === 0 ? {} : { output_parts: [...context.parts] }),
    ...endOf(context),
    ...turnsOf(context),
    queue_position,
    attempts: context.attempt,
    ...movesOf(context),
    ...opaqueOf(context),
    created_at: isoTime(context.created_at),
    started_at: timeOrNull(context.started_at),
    first_output_at: timeOrNull(context.first_output_at),
    ended_at: timeOrNull(context.ended_at),
    error: errorBody(snapshot, context.error),
    idempotency_key: context.idempotency_key,
    client: context.client,
    ...(context.asked_by === null ? {} : { asked_by: context.asked_by }),
    ...(context.asked_as === null ? {} : { asked_as: context.asked_as.api }),
    ...(context.metadata === null ? {} : { metadata: { ...context.metadata } }),
    conversation: context.conversation,
    ...(context.continues === null ? {} : { continues: context.continues }),
    ...(context.turns_of.length === 0 ? {} : { turns_of: [...context.turns_of] }),
    ...(context.origin === null ? {} : { origin: context.origin }),
    recovery: context.recovery,
    ...(context.ask_again ? { ask_again: true } : {}),
    seq,
  };
}

/** How the answer ended. A speed is shown rounded, and may be known without a report of it. */
function endOf(context: RunSnapshot['context']): RunEnd {
  const end: RunEnd = context.completion ?? NO_END;
  const speed = speedOf(context);
  const names = END_FIELDS.filter((name) => end[name] !== undefined);
  return {
    ...(Object.fromEntries(names.map((name) => [name, end[name]])) as RunEnd),
    ...(speed === null ? {} : { tokens_per_second: speed }),
  };
}

/** The messages of the model and the tools before the present answer. */
function turnsOf(of: RunSnapshot['context']): Partial<RunRecord> {
  const { turns, calls } = of;
  if (turns.length === 0) return NOTHING;
  return {
    ...(of.paused_ms === 0 ? {} : { waited_ms: of.paused_ms }),
    ...(of.paused_at === null ? {} : { waits_since: isoTime(of.paused_at) }),
    turns: messagesIn(turns, calls).map(toRecordedMessage),
    tool_calls: calls.map(({ call, id, server, tool, name, state, decided_by, ...rest }) => ({
      call,
      id,
      server,
      tool,
      name,
      state,
      decided_by,
      arguments: rest.arguments,
      requested_at: timeOrNull(rest.requested_at),
      started_at: timeOrNull(rest.started_at),
      ended_at: timeOrNull(rest.ended_at),
      ...(rest.report === undefined ? {} : { report: rest.report }),
      result: rest.result?.text ?? null,
      is_error: rest.result?.is_error ?? false,
    })),
  };
}

/** The parts that only one provider and model can read, in all messages. */
function opaqueOf({ request, turns, parts }: RunSnapshot['context']): Partial<RunRecord> {
  const said = [...partsIn(request.messages), ...turns.flatMap((turn) => turn.parts), ...parts];
  const { kept, left_out } = countOpaque(said, request);
  if (kept + left_out === 0) return NOTHING;
  return {
    ...(kept === 0 ? {} : { opaque_parts: kept }),
    ...(left_out === 0 ? {} : { opaque_left_out: left_out }),
  };
}

/** The earlier and the remaining targets of the run, and its requests to a cloud. */
function movesOf({ failed_attempts, fallbacks, sent }: RunSnapshot['context']): Partial<RunRecord> {
  // Most runs have none of these fields, and each empty object costs time.
  if (failed_attempts.length + fallbacks.length + sent.length === 0) return NOTHING;
  return {
    ...(failed_attempts.length === 0
      ? {}
      : { failed_attempts: failed_attempts.map(failedAttempt) }),
    ...(fallbacks.length === 0 ? {} : { fallbacks: fallbacks.map(targetName) }),
    ...(sent.length === 0
      ? {}
      : { sent_to_cloud: sent.map((one) => ({ ...one, at: isoTime(one.at) })) }),
  };
}

function failedAttempt({ attempt, provider, model, code, message, at }: FailedAttempt) {
  return { attempt, provider, model, code, message, at: isoTime(at) };
}

/** The fields of a request beside its prompt and system text. */
function conversation(request: RunRequest): Partial<RunRecord> {
  const { messages } = request;
  const names = recordedNames.filter((name) => request[name] !== undefined);
  if (isShort(request) && names.length === 0) return NOTHING;
  return {
    ...(isShort(request) || messages.length === 0
      ? {}
      : { messages: toRecordedMessages(messages) }),
    ...Object.fromEntries(names.map((name) => [name, request[name]])),
  };
}

const NOTHING: Partial<RunRecord> = {};

/** Which fields of a record say how its answer ended. */
type RunEnd = Pick<RunRecord, keyof Completion>;
const NO_END: RunEnd = { finish_reason: null, usage: { input_tokens: null, output_tokens: null } };
/** All of them but the speed, in the order of the record. */
const END_FIELDS = Object.keys({
  finish_reason: true,
  stop_sequence: true,
  load_ms: true,
  tool_form: true,
  form: true,
  form_problem: true,
  usage: true,
} satisfies Record<Exclude<keyof Completion, 'tokens_per_second'>, true>) as (keyof RunEnd)[];

type Recorded = NonNullable<RunRecord['messages']>;

/** The same list if a record has the messages as they are. */
function toRecordedMessages(messages: readonly Message[]): Recorded {
  const all = messages.map(toRecordedMessage);
  return all.every((one, index) => one === messages[index]) ? (messages as Recorded) : all;
}

function toRecordedMessage(message: Message): Recorded[number] {
  const { role, content, continued } = message;
  if (continued === undefined && !content.some((part) => filesIn(part).length > 0))
    return message as Recorded[number];
  return {
    role,
    content: content.map((part) => {
      if (isMedia(part)) return fileRecord(part);
      if (part.type !== 'tool_result') return part;
      const { media, ...result } = part;
      return media === undefined ? result : { ...result, media: media.map(fileRecord) };
    }),
  };
}

/** In the fair order of a fleet: the token, if there is one, and the client. */
export function fairName({
  asked_by,
  client,
}: Pick<RunSnapshot['context'], 'asked_by' | 'client'>): string {
  return asked_by === null ? client : `${asked_by}\n${client}`;
}

function keyOfRun({ withdrawn, idempotency_key, asked_by }: RunSnapshot['context']): string | null {
  return withdrawn || idempotency_key === null ? null : keyOf(asked_by, idempotency_key);
}

/** The projection row. It is committed together with the event that led to this state. */
export function runRow(snapshot: RunSnapshot, seq: number): RunRow {
  const { context } = snapshot;
  const finished = snapshot.status === 'done';
  const record = finished ? runRecord(snapshot, seq) : null;
  return {
    run_id: context.run_id,
    state: runState(snapshot),
    finished,
    provider: context.request.provider,
    model: context.request.model,
    created_at: context.created_at,
    idempotency_key: keyOfRun(context),
    request_digest: context.request_digest,
    record: record === null ? null : { ...record },
    seq,
    ...(record?.messages === context.request.messages ? { repeats: true } : {}),
    cloud: context.sent.length > 0,
    ...(context.conversation === context.run_id ? {} : { conversation: context.conversation }),
    ...(context.origin === null ? {} : { origin: context.origin }),
    client: fairName(context),
    ...(snapshot.hasTag('queued')
      ? { due_at: Math.min(context.queue_deadline_at, context.deadline_at) }
      : {}),
    ...(finished ? { usage: usageOf(context) } : {}),
  };
}

function timeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}

function errorBody(snapshot: RunSnapshot, failure: Failure | null): ErrorBody | null {
  if (isIn(snapshot, 'cancelled')) return new SvcError('run_cancelled').body();
  if (failure === null || isIn(snapshot, 'completed')) return null;
  const { run_id: run, request } = snapshot.context;
  const body = fromBody(failure).body();
  return { ...body, hint: fillHint(body.hint, { run, provider: request.provider }) };
}

/** The row of a run after this event. Null for output, which changes no row, and other machines. */
export function projectEvent(
  { stream, type, seq }: Pick<StoredEvent, 'stream' | 'type' | 'seq'>,
  snapshot: AnyMachineSnapshot,
): RunRow | null {
  return isRun(stream) && type !== 'run.output_appended'
    ? runRow(snapshot as RunSnapshot, seq)
    : null;
}

/**
 * Rebuilds a damaged row of a run from its events. Null without events, or if the output of a
 * finished run was stored without its text.
 */
export async function projectRun(
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
): Promise<RunRow | null> {
  if (!isRun(run_id)) return null;
  let row: RunRow | null = null;
  let isWhole = true;
  await foldStream(
    store,
    run_id,
    Number.POSITIVE_INFINITY,
    undefined,
    ({ recent, snapshot, stream, seq }) => {
      const event = recent.at(-1);
      if (event?.type === 'run.output_appended' && event.data.chars !== undefined) isWhole = false;
      if (event !== undefined)
        row = projectEvent({ stream, type: event.type, seq }, snapshot) ?? row;
    },
  );
  const rebuilt = row as RunRow | null;
  return rebuilt === null || !rebuilt.finished || isWhole ? rebuilt : null;
}
