import { invalidRequest } from '../../../contract/check.ts';
import type { RunInput, RunRecord } from '../../../contract/contract.ts';
import type { SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../operations/port.ts';
import { cancelWhenGone } from '../../../transport/cancel-when-gone.ts';
import { sendLarge } from '../../../transport/http/large.ts';
import { sendJson } from '../../../transport/http/reply.ts';
import type { Context } from '../../../transport/http/route.ts';
import { CLIENT, clientGoneSignal, requestOver } from '../../../transport/http/run-request.ts';
import { cutReasonOf, sendLive } from '../../../transport/stream/live.ts';
import { type Reading, readingOf } from '../../documents/documents.ts';
import { toApiId } from '../../ids.ts';
import { type ApiRequest, shouldCancelOnDisconnect, startFor } from '../../start.ts';
import { tellVerbosity } from '../parameters.ts';
import { bodyOf, HEARTBEAT } from '../parts.ts';
import { continueWithApprovals } from './approvals.ts';
import type { Earlier } from './earlier.ts';
import { ResponseEvents } from './events.ts';
import { type ResponseInput, type ResponseRun, runOfResponse } from './input.ts';
import type { Item } from './items.ts';
import { inResponse, RESPONSES } from './object.ts';
import { type ItemsQuery, pageOf, type ResponseQuery } from './query.ts';
import {
  checkBegun,
  foldOf,
  followResponse,
  inputOf,
  presentResponse,
  requestOfResponse,
  storedResponse,
} from './read.ts';

/** The Responses API. Each response is a run, and all of it comes from the log. */

export async function createResponse(context: Context<unknown, ResponseInput>): Promise<void> {
  const { runtime } = context;
  const body = await context.body();
  const response = await responseTo(runtime, body, readingOf(context), (...args) =>
    startFor(context, ...args),
  );
  const { source } = response;
  tellVerbosity(context, source.request, 'text.verbosity');
  if (source.part > 0) {
    context.res.setHeader('X-Svc-Run-Id', source.run_id);
    if (source.fields.background !== true && shouldCancelOnDisconnect(context.req.headers))
      cancelWhenGone(runtime, source.run_id, clientGoneSignal(context));
  }
  if (body.stream === true) return streamResponse(context, response, { asks: true });
  const whole =
    body.background === true
      ? await presentResponse(runtime, response)
      : await wholeResponse(context, response);
  await sendLarge(context, async () => whole);
}

export type Start = (input: RunInput, origin: ApiRequest) => Promise<RunRecord>;

/** The response of a request: it continues a run with approvals, or begins one. */
export async function responseTo(
  runtime: Pick<Runtime, 'runs' | 'approvals'>,
  body: ResponseInput,
  reading: Reading,
  start: Start,
  earlierOf?: (id: string) => Promise<Earlier>,
): Promise<ResponseEvents> {
  const continued = await continueWithApprovals(runtime, body);
  if (continued !== null) return continued;
  return startResponse(runtime, await runOfResponse(runtime, body, reading, earlierOf), start);
}

/** Starts the run of a response. */
export async function startResponse(
  runtime: Pick<Runtime, 'runs'>,
  { input, fields, joins, narrowings, whole }: ResponseRun,
  start: Start,
): Promise<ResponseEvents> {
  if (whole.messages.length === 0)
    throw invalidRequest('input', 'input must have at least one item.');
  const survives = fields.background === true;
  // A client can request its events at any time.
  const streams = true;
  const origin = { api: RESPONSES, fields: { ...fields }, streams, survives, joins, narrowings };
  const { id } = await start(input, origin).catch((thrown: unknown) => {
    throw inResponse(thrown);
  });
  return new ResponseEvents(await requestOfResponse(runtime, toApiId('resp_', id)));
}

/**
 * The response at its end. It is read as it is made: a log without texts cannot say it later.
 * Throws the error of one that failed or was cancelled: most clients do not look at its status.
 */
export async function wholeResponse(context: Context, response: ResponseEvents): Promise<Item> {
  const { runtime } = context;
  const signal = requestOver(context);
  for await (const _ of followResponse(runtime, response, { signal }));
  if (!response.isOver) throw cutReasonOf(context, 'The daemon stops. The run continues later.');
  const error = await failureOf(runtime, response);
  if (error !== null) throw error;
  return response.response();
}

/** Why the response has no answer. Null: it has one, whatever becomes of its run. */
async function failureOf(runtime: Pick<Runtime, 'runs'>, { isComplete, source }: ResponseEvents) {
  if (isComplete) return null;
  const error = await runtime.runs.failure(source.run_id);
  return error === null ? null : (inResponse(error) as SvcError);
}

/**
 * Streams the events of a response after a sequence number. `asks`: the request asks for the
 * answer, so an error of the run is an error of the stream.
 *
 * Throws invalid_request for a number that no event has yet. A client that waited behind it would
 * miss events, so nothing is sent before that is known.
 */
async function streamResponse(
  context: Context,
  response: ResponseEvents,
  { after = -1, asks = false }: { after?: number; asks?: boolean },
): Promise<void> {
  const { runtime } = context;
  const { run_id, part } = response.source;
  const { seq: present } = await runtime.runs.head(run_id);
  await sendLive(
    context,
    {
      type: 'text/event-stream',
      run_id,
      heartbeat: HEARTBEAT,
      begin: after < 0 && part === 0 ? 'now' : 'late',
      // The event repeats the last number, so that a client that continues after it misses nothing.
      failure: (error) => {
        const { code, message, param } = bodyOf(error);
        const sequence_number = Math.max(after, response.last);
        return frame({ type: 'error', sequence_number, code, message, param });
      },
    },
    async ({ signal, outflow, write }) => {
      const options = { signal, outflow };
      for await (const { seq, events } of followResponse(runtime, response, options)) {
        for (const event of events) if (event.sequence_number > after) await write(frame(event));
        if (seq !== present) continue;
        checkBegun(response);
        if (response.last < after) throw aheadOf(response);
        // From here on the headers need not wait.
        await write('');
      }
      if (!response.isOver)
        throw cutReasonOf(
          context,
          'The daemon stops. Continue with starting_after after its next start.',
        );
      if (response.last < after) throw aheadOf(response);
      return asks ? failureOf(runtime, response) : null;
    },
  );
}

function aheadOf({ last, isOver }: ResponseEvents): SvcError {
  return invalidRequest(
    'starting_after',
    isOver
      ? `starting_after must be at most ${last}: the response has ended, and that is its ` +
          'last event.'
      : `starting_after must be at most ${last}: the response has no later event yet.`,
  );
}

function frame(event: { readonly type: string; readonly [field: string]: unknown }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

export async function showResponse(context: Context<ResponseQuery>): Promise<void> {
  const { runtime, query } = context;
  const response = await storedResponse(runtime, idOf(context));
  if (query.stream === true)
    return streamResponse(context, response, { after: query.starting_after ?? -1 });
  if (query.starting_after !== undefined)
    throw invalidRequest('starting_after', 'starting_after needs stream=true.');
  await sendLarge(context, () => presentResponse(runtime, response));
}

export async function listInputItems(context: Context<ItemsQuery>): Promise<void> {
  const { runtime, query } = context;
  const response = await storedResponse(runtime, idOf(context));
  const { source } = response;
  await sendLarge(context, async () => {
    const items = source.part > 0 ? (await foldOf(runtime, response)).answers : inputOf(source);
    return pageOf([query.order === 'asc' ? items : items.reverse()], query);
  });
}

/** As OpenAI's: only a response in the background. A finished one is answered as it is. */
export async function cancelResponse(context: Context): Promise<void> {
  const { runtime } = context;
  const response = await storedResponse(runtime, idOf(context));
  const { source } = response;
  if (source.fields.background !== true)
    throw invalidRequest(
      'id',
      'Only a response with background: true can be cancelled. Close the connection of this one.',
    );
  if (source.part > 0) await foldOf(runtime, response);
  await runtime.runs.cancel(source.run_id, CLIENT);
  await sendLarge(context, () => presentResponse(runtime, response));
}

/** Removes its run from the log. */
export async function deleteResponse(context: Context): Promise<void> {
  const { res, runtime } = context;
  const response = await storedResponse(runtime, idOf(context));
  const { run_id, part } = response.source;
  if (part > 0) await foldOf(runtime, response);
  await runtime.runs.remove(run_id);
  sendJson(res, 200, { id: idOf(context), object: 'response', deleted: true });
}

function idOf({ req }: Pick<Context, 'req'>): string {
  return req.params.id ?? '';
}
