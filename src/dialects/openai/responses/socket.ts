import {
  check,
  checkKnown,
  invalidRequest,
  type Known,
  withoutNull,
} from '../../../contract/check.ts';
import { boundConversation, checkSize } from '../../../contract/inputs.ts';
import { asSvcError, SvcError } from '../../../errors.ts';
import { asRecord } from '../../../json.ts';
import { newRunId } from '../../../runtime/runs/ids.ts';
import { cancelWhenGone } from '../../../transport/cancel-when-gone.ts';
import { parse } from '../../../transport/http/body.ts';
import { IgnoredFields } from '../../../transport/http/ignored-fields.ts';
import type { SocketRoute, Talk } from '../../../transport/socket-route.ts';
import { onAbort } from '../../../transport/stream/on-abort.ts';
import { toApiId } from '../../ids.ts';
import { shouldCancelOnDisconnect, startRun } from '../../start.ts';
import { bodyOf } from '../parts.ts';
import { conversationOf, type Earlier } from './earlier.ts';
import { type ResponseEvent, ResponseEvents } from './events.ts';
import { type ResponseInput, type ResponseRun, responseInput, runOfResponse } from './input.ts';
import { responseId } from './object.ts';
import { followResponse } from './read.ts';
import { responseTo, type Start } from './responses.ts';

/**
 * Responses over a WebSocket: each message of the client is a request, and its events are messages.
 *
 * 1. One response at a time. The next request waits.
 * 2. The last response can be continued on the same connection, also one with `store: false`. That
 *    ends when a request that continues it fails.
 * 3. An error is a message. The connection stays open.
 */
const PATH = '/v1/responses';
export const responseSocket: SocketRoute = { path: PATH, talk: converse };

/** The response that the connection knows. `made`: it was prepared only, so no run has it. */
interface Last {
  id: string;
  made?: Earlier;
}

async function converse(talk: Talk): Promise<void> {
  const { limits, log, signal, gone } = talk;
  const say = (error: SvcError) => talk.send([JSON.stringify(errorEvent(error))]);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), limits.talk_ms);
  const ignored = new IgnoredFields(log);
  let last: Last | null = null;
  try {
    for await (const bytes of talk.messages(late.signal)) {
      let previous: unknown;
      try {
        const sent = asRecord(parse(bytes, { values: limits.request_values }));
        previous = sent.previous_response_id;
        last = await answer(talk, sent, { last, ignored });
      } catch (thrown) {
        const error = asSvcError(thrown);
        if (error.code === 'internal') log.error({ err: error.cause ?? error }, 'a talk failed');
        if (last !== null && previous === last.id) last = null;
        if (!gone.aborted) await say(error);
        if (signal.aborted) throw error;
      }
    }
    if (!signal.aborted) await say(new SvcError('websocket_connection_limit_reached'));
  } finally {
    clearTimeout(timer);
  }
}

/** Answers one message. Returns the response that can be continued now. */
async function answer(
  talk: Talk,
  sent: Readonly<Record<string, unknown>>,
  { last, ignored }: { last: Last | null; ignored: IgnoredFields },
): Promise<Last | null> {
  const { runtime, limits, log, strict, signal, outflow, send } = talk;
  const { type, generate, stream_id, stream: _, stream_options: __, ...fields } = sent;
  if (type !== 'response.create') throw invalidRequest('type', 'type must be response.create.');
  if ((stream_id ?? null) !== null)
    throw invalidRequest(
      'stream_id',
      'stream_id must be null: a connection has one response at a time.',
    );
  boundConversation(fields, limits);
  const { value: body, ignored: left } = checkFields(fields, strict);
  if (body.background === true)
    throw invalidRequest(
      'background',
      'background must be false: a WebSocket streams its responses.',
    );
  if (left.length > 0) ignored.note(PATH, left);
  const reading = { limits, signal: () => signal };
  const earlierOf = async (id: string) => {
    if (id !== last?.id) return conversationOf(runtime, id);
    return last.made ?? conversationOf(runtime, id, { unstored: true });
  };
  // An answer over HTTP names them in a header.
  const first = left.length > 0 ? { svc_ignored: left } : {};
  if (generate === false) {
    const request = await runOfResponse(runtime, body, reading, earlierOf);
    // No run checks it, and the next one adds to it.
    boundConversation(request.input, limits);
    checkSize(request.input, limits);
    const { id, events } = prepareResponse(request, body);
    await send(events.map((event, index) => textOf(event, index === 0 ? first : {})));
    return { id, made: request.whole };
  }
  const gone = new AbortController();
  const endWait = onAbort(talk.gone, () => gone.abort());
  if (talk.gone.aborted) gone.abort();
  try {
    const headers = { ...talk.headers, 'idempotency-key': undefined };
    const asking = { ...talk, headers, goneSignal: () => gone.signal };
    const start: Start = (...args) => startRun(asking, ...args);
    const response = await responseTo(runtime, body, reading, start, earlierOf);
    const { source } = response;
    if (source.part > 0 && shouldCancelOnDisconnect(headers))
      cancelWhenGone(runtime, source.run_id, gone.signal, log);
    const options = { signal, outflow };
    for await (const { events } of followResponse(runtime, response, options)) {
      const texts = events.map((event) => textOf(event, event.sequence_number === 0 ? first : {}));
      if (texts.length > 0) await send(texts);
    }
    if (!response.isOver) throw new SvcError('daemon_stopping');
    const id = responseId(source);
    if (response.status === 'completed' || response.status === 'incomplete') return { id };
    return last !== null && body.previous_response_id === last.id ? null : last;
  } finally {
    endWait();
  }
}

function checkFields(fields: object, strict: boolean): Known<ResponseInput> {
  return strict
    ? { value: check(responseInput, fields), ignored: [] }
    : checkKnown(responseInput, fields, { blanks: false });
}

/** A response without an answer, which the next request continues. No run has it. */
function prepareResponse({ input, fields }: ResponseRun, { model }: ResponseInput) {
  const run_id = newRunId();
  const { metadata = null, ...options } = withoutNull(input);
  const request = { ...options, provider: '', model: '', messages: input.messages ?? [] };
  const source = {
    run_id,
    part: 0,
    fields,
    metadata,
    created_at: Date.now(),
    request: request as never,
  };
  const response = new ResponseEvents(source);
  const nothing = { input_tokens: null, output_tokens: null };
  const log = [
    { type: 'run.accepted', data: {} },
    { type: 'run.completed', data: { finish_reason: 'stop', usage: nothing } },
  ];
  const events = log.flatMap((event) => response.after({ ...event, at: Date.now() }));
  const withModel = (event: ResponseEvent) => ({
    ...event,
    response: { ...(event.response as object), model: model ?? '' },
  });
  return { id: toApiId('resp_', run_id), events: events.map(withModel) };
}

function textOf(event: object, more: object): string {
  return JSON.stringify({ ...event, ...more });
}

function errorEvent(error: SvcError): object {
  return { type: 'error', status: error.http, error: bodyOf(error) };
}
