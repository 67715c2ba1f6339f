import * as v from 'valibot';
import { anything, count, flag, named, object, oneOf, text } from '../../contract/vocabulary.ts';
import { type Route, route } from '../../transport/http/route.ts';
import { chatCompletion } from './chat.ts';
import { chatInput } from './chat-input.ts';
import { answerCompletion, completionInput } from './completions.ts';
import { embeddingsRoute } from './embeddings.ts';
import { llamaServerRoutes } from './llama-server.ts';
import { listModels, showModel } from './models.ts';
import { passedRoutes } from './passed.ts';

const usage = v.exactOptional(
  object({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: anything,
    completion_tokens_details: anything,
  }),
);
const head = { id: text, created: count, model: text };
const finish_reason = v.nullable(oneOf(['stop', 'length', 'content_filter', 'tool_calls']));
const logprobs = v.nullable(anything);

const chatAnswer = named(
  'ChatCompletion',
  object({
    ...head,
    object: v.literal('chat.completion'),
    choices: v.array(
      object({
        index: count,
        message: object({
          role: v.literal('assistant'),
          content: v.nullable(text),
          refusal: v.nullable(text),
          reasoning_content: v.exactOptional(text),
          tool_calls: v.exactOptional(v.array(anything)),
        }),
        logprobs,
        finish_reason,
      }),
    ),
    usage,
  }),
);
const chatChunk = named(
  'ChatCompletionChunk',
  object({
    ...head,
    object: v.literal('chat.completion.chunk'),
    choices: v.array(object({ index: count, delta: anything, logprobs, finish_reason })),
    usage,
  }),
);
const completionAnswer = named(
  'Completion',
  object({
    ...head,
    object: v.literal('text_completion'),
    choices: v.array(object({ index: count, text, logprobs, finish_reason })),
    usage,
  }),
);
const model = anything;
const models = named(
  'Models',
  object({
    object: text,
    data: v.array(model),
    has_more: flag,
    first_id: v.nullable(text),
    last_id: v.nullable(text),
  }),
);
const HEADERS = ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'];

/** The API of OpenAI. Its errors have svc's own form, which has all fields of OpenAI's. */
export const openaiRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/chat/completions',
    access: 'token',
    summary: 'OpenAI: answers a conversation, with stream: true as it is made.',
    headers: HEADERS,
    body: chatInput,
    unknownFields: 'may refuse',
    asksModel: true,
    answers: { 200: [chatAnswer, { type: 'text/event-stream', schema: chatChunk }] },
    answer: chatCompletion,
  }),
  route({
    method: 'POST',
    path: '/v1/completions',
    access: 'token',
    summary: 'OpenAI: continues a prompt, with stream: true as it is made.',
    headers: HEADERS,
    body: completionInput,
    unknownFields: 'may refuse',
    answers: { 200: [completionAnswer, { type: 'text/event-stream', schema: completionAnswer }] },
    answer: answerCompletion,
  }),
  embeddingsRoute,
  ...passedRoutes,
  ...llamaServerRoutes,
  route({
    method: 'GET',
    path: '/v1/models',
    access: 'token',
    summary: 'OpenAI: models of every reachable provider, and the aliases of the configuration.',
    answers: { 200: models },
    answer: listModels,
  }),
  route({
    method: 'GET',
    path: '/v1/models/:id',
    access: 'token',
    summary: 'OpenAI: one model, or what an alias means.',
    answers: { 200: model },
    answer: showModel,
  }),
  route({
    method: 'GET',
    path: '/v1/models/:provider/*',
    access: 'token',
    summary: 'The same, with the slash of the id as it is.',
    answers: { 200: model },
    answer: showModel,
  }),
];
