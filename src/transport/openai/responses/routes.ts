import * as v from 'valibot';
import { errorAnswer } from '../../../contract/records.ts';
import { anything, flag, named, object, text, whole } from '../../../contract/vocabulary.ts';
import { SvcError } from '../../../errors.ts';
import { type Route, route } from '../../http/route.ts';
import { compactInput, countInput, responseInput } from './input.ts';
import { itemsQuery, responseQuery } from './query.ts';
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  listInputItems,
  showResponse,
} from './responses.ts';
import { compactResponse, countInputTokens } from './window.ts';

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
    summary: 'OpenAI: the items that the response was asked with.',
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
