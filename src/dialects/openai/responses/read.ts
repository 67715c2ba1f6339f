import type { RunRecord } from '../../../contract/contract.ts';
import { opaqueIn, type Tool, type ToolCallPart } from '../../../contract/messages/parts.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../operations/port.ts';
import { eventData } from '../../../transport/stream/event-forms.ts';
import type { Outflow } from '../../../transport/stream/unsent-bytes.ts';
import { toApiId } from '../../ids.ts';
import type { RunLogEvent } from '../../served-calls.ts';
import { type ResponseEvent, ResponseEvents } from './events.ts';
import { type Item, inputItems } from './items.ts';
import { fieldsOf, placeOfResponse, type ResponseRequest, responseId } from './object.ts';

/** Reads responses from the events of their runs. */

/** Throws run_unknown for a run that is not a response. */
export async function requestOfResponse(
  runtime: Pick<Runtime, 'runs'>,
  id: string,
): Promise<ResponseRequest> {
  const { run_id, part } = placeOfResponse(id);
  const { asked_as, ...rest } = await runtime.runs.readRequest(run_id);
  const fields = fieldsOf(asked_as);
  if (fields === null)
    throw new SvcError('run_unknown', `The run ${run_id} is not a response.`, { param: 'id' });
  return { run_id, part, fields, ...rest };
}

/** The response before its first event, unless its client asked with `store: false`. */
export async function storedResponse(
  runtime: Pick<Runtime, 'runs'>,
  id: string,
): Promise<ResponseEvents> {
  const source = await requestOfResponse(runtime, id);
  const { run_id } = source;
  if (source.fields.unstored !== true) return new ResponseEvents(source);
  throw new SvcError('run_unknown', `The response ${id} was requested with store: false.`, {
    param: 'id',
    hint: `Its run is in the history: svc runs show ${run_id}`,
  });
}

/** What the next events of a run say of its response, in their order, up to its end. */
export async function* followResponse(
  runtime: Pick<Runtime, 'runs'>,
  response: ResponseEvents,
  { signal, outflow }: { signal: AbortSignal; outflow?: Outflow },
): AsyncGenerator<{ seq: number; events: ResponseEvent[] }, void> {
  const options = { form: eventData, after: response.version, signal };
  for await (const { page, events } of runtime.runs.follow(response.source.run_id, options)) {
    const { body } = page;
    outflow?.hold(body);
    try {
      for (const event of events) {
        const { type, at, data } = body.storedOf(event);
        response.version = event.version;
        yield { seq: event.seq, events: response.after({ type, at, data } as RunLogEvent) };
        if (response.isOver) return;
      }
    } finally {
      outflow?.release(body);
    }
  }
}

/** The response as it is now. Throws run_unknown if its run has not come so far. */
export async function presentResponse(
  runtime: Pick<Runtime, 'runs'>,
  before: ResponseEvents,
): Promise<Item> {
  const now = await foldOf(runtime, before);
  return { ...now.response(), id: responseId(before.source) };
}

/**
 * The response after all events of its run that there are now, or after as many as are enough.
 * Throws as `presentResponse` does.
 */
export async function foldOf(
  runtime: Pick<Runtime, 'runs'>,
  response: ResponseEvents,
  isEnough = (_: ResponseEvents) => false,
): Promise<ResponseEvents> {
  if (response.isOver) return response;
  const { source } = response;
  const { seq: last } = await runtime.runs.head(source.run_id);
  const { signal } = new AbortController();
  try {
    for await (const { seq } of followResponse(runtime, response, { signal }))
      if (seq >= last || isEnough(response)) break;
  } catch (error) {
    if (!hasCode(error, 'content_not_kept')) throw error;
    return fromRecord(source, await runtime.runs.get(source.run_id));
  }
  checkBegun(response);
  return response;
}

/** Throws run_unknown for the response of a run that has not come so far. */
export function checkBegun({ source, last }: ResponseEvents): void {
  if (source.part === 0 || source.part === ALL || last >= 0) return;
  throw new SvcError('run_unknown', `There is no response ${responseId(source)}.`, { param: 'id' });
}

/** After all responses of a run. */
export const ALL = Number.POSITIVE_INFINITY;

/** The items of the complete responses of a run, and its request. Throws run_unknown. */
export async function readResponseItems(
  runtime: Pick<Runtime, 'runs'>,
  run_id: string,
): Promise<{ source: ResponseRequest; items: Item[] | null }> {
  const source = { ...(await requestOfResponse(runtime, toApiId('resp_', run_id))), part: ALL };
  const record = await runtime.runs.get(run_id);
  // Without a call of svc, the record has all of it.
  const isShort = record.turns === undefined;
  const response = isShort
    ? fromRecord(source, record)
    : await foldOf(runtime, new ResponseEvents(source));
  return { source, items: response.conversation };
}

/** The input of a response, without the conversation before it. */
export function inputOf({
  run_id,
  request: { messages },
  fields: { new_messages = messages.length, ...named },
}: ResponseRequest): Item[] {
  return inputItems(run_id, messages.slice(messages.length - new_messages), named);
}

/** From the record, which has the last answer only: the log does not have the pieces. */
function fromRecord(source: ResponseRequest, record: RunRecord): ResponseEvents {
  const response = new ResponseEvents({ ...source, part: 0 });
  for (const event of eventsOf(record)) response.after(event);
  return response;
}

function* eventsOf(record: RunRecord): Generator<RunLogEvent> {
  const {
    state,
    output,
    output_parts,
    finish_reason,
    usage,
    error,
    ended_at,
    form_problem,
    tools = [],
  } = record;
  const at = Date.parse(ended_at ?? record.created_at);
  if (record.started_at !== null) yield { type: 'run.started', at, data: {} };
  for (const part of output_parts ?? [{ type: 'text' as const, text: output }]) {
    const data =
      part.type === 'tool_call'
        ? { kind: part.type, text: part.arguments, call: callOf(part, tools) }
        : { text: part.text, ...(part.type === 'text' ? {} : { kind: part.type }) };
    const opaque = opaqueIn(part);
    const own = opaque === undefined ? {} : { opaque };
    yield { type: 'run.output_appended', at, data: { ...data, ...own } };
  }
  if (ended_at === null) return;
  if (state === 'completed')
    yield { type: 'run.completed', at, data: { finish_reason, usage, form_problem } };
  else if (state === 'cancelled') yield { type: 'run.cancelled', at, data: {} };
  else yield { type: 'run.failed', at, data: { error } };
}

function callOf({ id, name }: ToolCallPart, tools: readonly Pick<Tool, 'name' | 'server'>[]) {
  return { id, name, server: tools.find((tool) => tool.name === name)?.server };
}
