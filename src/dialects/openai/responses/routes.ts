import * as v from 'valibot';
import { parseRunInput } from '../../../contract/inputs.ts';
import { errorAnswer } from '../../../contract/records.ts';
import { anything, flag, named, object, text, whole } from '../../../contract/vocabulary.ts';
import { SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../operations/port.ts';
import { sendLarge } from '../../../transport/http/large.ts';
import { sendJson } from '../../../transport/http/reply.ts';
import { type Context, type Route, route } from '../../../transport/http/route.ts';
import { clientGoneSignal } from '../../../transport/http/run-request.ts';
import { readingOf } from '../../documents/documents.ts';
import { toApiId } from '../../ids.ts';
import { startFor } from '../../start.ts';
import { keptMessages } from './compaction.ts';
import {
  type CompactInput,
  type CountInput,
  compactInput,
  countInput,
  responseInput,
  runOfResponse,
} from './input.ts';
import { inputItems } from './items.ts';
import { inResponse } from './object.ts';
import { itemsQuery, responseQuery } from './query.ts';
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  listInputItems,
  showResponse,
  startResponse,
  wholeResponse,
} from './responses.ts';

const response = named(
  'Response',
  v.looseObject({
    id: text,
    object: v.literal('response'),
    created_at: whole,
    status: text,
    model: text,
    output: v.array(anything),
    usage: v.nullable(anything),
    error: v.nullable(anything),
  }),
);
const event = named('ResponseEvent', v.looseObject({ type: text, sequence_number: whole }));
const stream = { type: 'text/event-stream', schema: event };
const answer = { 200: [response, stream] };

export const responseRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/responses',
    access: 'token',
    summary: 'OpenAI: answers an input. With background: true it survives the connection.',
    headers: ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'],
    body: responseInput,
    unknownFields: 'may refuse',
    asksModel: true,
    answers: answer,
    answer: createResponse,
  }),
  route({
    method: 'GET',
    path: '/v1/responses',
    access: 'token',
    scope: 'run',
    summary: 'WebSocket: answers one `response.create` after the other.',
    answers: { 101: null, 426: errorAnswer },
    answer: () => {
      throw new SvcError('upgrade_required');
    },
  }),
  route({
    method: 'POST',
    path: '/v1/responses/input_tokens',
    access: 'token',
    summary: 'OpenAI: the tokens of an input. `estimated`: the provider cannot count.',
    body: countInput,
    unknownFields: 'may refuse',
    asksModel: true,
    answers: {
      200: named(
        'ResponseInputTokens',
        object({
          object: v.literal('response.input_tokens'),
          input_tokens: whole,
          estimated: v.exactOptional(flag),
        }),
      ),
    },
    answer: countInputTokens,
  }),
  route({
    method: 'POST',
    path: '/v1/responses/compact',
    access: 'token',
    summary: 'OpenAI: a shorter conversation. The model writes a summary of its part.',
    headers: ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'],
    body: compactInput,
    unknownFields: 'may refuse',
    asksModel: true,
    answers: {
      200: named(
        'ResponseCompaction',
        object({
          id: text,
          object: v.literal('response.compaction'),
          created_at: whole,
          output: v.array(anything),
          usage: v.nullable(anything),
        }),
      ),
    },
    answer: compactResponse,
  }),
  route({
    method: 'GET',
    path: '/v1/responses/:id',
    access: 'token',
    summary: 'OpenAI: a response; with `?stream=true&starting_after=<n>` its later events.',
    query: responseQuery,
    answers: answer,
    answer: showResponse,
  }),
  route({
    method: 'GET',
    path: '/v1/responses/:id/input_items',
    access: 'token',
    summary: 'OpenAI: the input items of the response.',
    query: itemsQuery,
    answers: {
      200: named(
        'ResponseItems',
        object({
          object: v.literal('list'),
          data: v.array(anything),
          first_id: v.nullable(text),
          last_id: v.nullable(text),
          has_more: flag,
        }),
      ),
    },
    answer: listInputItems,
  }),
  route({
    method: 'POST',
    path: '/v1/responses/:id/cancel',
    access: 'token',
    summary: 'OpenAI: cancels a response in the background.',
    answers: { 200: response },
    answer: cancelResponse,
  }),
  route({
    method: 'DELETE',
    path: '/v1/responses/:id',
    access: 'token',
    summary: 'OpenAI: removes a response that has ended, and its run, from the log.',
    answers: {
      200: named(
        'ResponseDeleted',
        object({ id: text, object: v.literal('response'), deleted: flag }),
      ),
    },
    answer: deleteResponse,
  }),
];

async function countInputTokens(context: Context<unknown, CountInput>): Promise<void> {
  const body = await context.body();
  const { input, narrowings } = await runOfResponse(context.runtime, body, readingOf(context));
  const { runs } = context.runtime;
  const count = async () =>
    runs.countTokens(parseRunInput(input, context.limits), clientGoneSignal(context), narrowings);
  const { input_tokens, uncounted } = await count().catch((thrown) => {
    throw inResponse(thrown);
  });
  const more = uncounted === null ? {} : { estimated: true };
  sendJson(context.res, 200, { object: 'response.input_tokens', input_tokens, ...more });
}

/**
 * A run writes the summary, so it is in the history, and can be retrieved as any response. Throws
 * provider_failed for a summary that is not whole: the client would lose what it leaves out.
 */
async function compactResponse(context: Context<unknown, CompactInput>): Promise<void> {
  const { runtime } = context;
  const body = await context.body();
  const { input } = body;
  const items =
    typeof input === 'string' ? [{ role: 'user' as const, content: input }] : (input ?? []);
  const before = await startResponse(
    runtime,
    await runOfResponse(
      runtime,
      { ...body, input: [...items, { type: 'compaction_trigger' }] },
      readingOf(context),
    ),
    (...args) => startFor(context, ...args),
  );
  const { source } = before;
  const response = await wholeResponse(context, before);
  if (response.status !== 'completed' || (await isEmpty(runtime, source.run_id)))
    throw new SvcError('provider_failed', 'The model wrote no whole summary.', {
      hint: 'Compact a shorter conversation, or ask another model.',
      retryable: false,
    });
  const { request, fields } = source;
  const messages = request.messages.slice(fields.instructions === true ? 1 : 0);
  await sendLarge(context, async () => ({
    id: toApiId('resp_', source.run_id),
    object: 'response.compaction',
    created_at: response.created_at,
    output: [
      ...inputItems(source.run_id, keptMessages(messages), fields),
      ...(response.output as object[]),
    ],
    usage: response.usage,
  }));
}

async function isEmpty(runtime: Pick<Runtime, 'runs'>, run_id: string): Promise<boolean> {
  return (await runtime.runs.get(run_id)).output.trim() === '';
}
