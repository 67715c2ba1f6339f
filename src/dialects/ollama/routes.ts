import * as v from 'valibot';
import { anything, flag, named, object, text } from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import { type Route, route } from '../../transport/http/route.ts';
import {
  copy,
  copyInput,
  create,
  createInput,
  deleteInput,
  pull,
  pullInput,
  remove,
} from './changes.ts';
import { embed, embeddingsInput, embedInput, embedOne } from './embed.ts';
import { errorOf } from './errors.ts';
import { listLoaded, listTags, showInput, showModel, showVersion } from './models.ts';
import { chat, chatInput, generate, generateInput } from './runs.ts';

const shared = {
  access: 'token',
  unknownFields: 'ignore',
  blanks: true,
  errors: errorOf,
  errorSchema: named('OllamaError', object({ error: text, status: v.optional(text) })),
} as const;
const admin = { ...shared, scope: 'admin' } as const;
const status = named('OllamaStatus', object({ status: text }));
const answerTypesOf = (name: string) => [
  named(name, v.looseObject({ model: text, done: flag })),
  { type: 'application/x-ndjson' },
];
const models = named('OllamaModels', object({ models: v.array(anything) }));
const HEADERS = ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'];

/** The routes of Ollama's API. */
export const ollamaRoutes: readonly Route[] = [
  route({
    ...shared,
    method: 'POST',
    path: '/api/chat',
    summary:
      "The next message of a conversation, in Ollama's form; streams unless `stream` is false.",
    headers: HEADERS,
    body: chatInput,
    asksModel: true,
    answers: { 200: answerTypesOf('OllamaChat') },
    answer: chat,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/api/generate',
    summary: "The answer to a prompt, in Ollama's form; streams unless `stream` is false.",
    headers: HEADERS,
    body: generateInput,
    answers: { 200: answerTypesOf('OllamaGenerate') },
    answer: generate,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/api/embed',
    summary: "The vectors of texts, in Ollama's form.",
    body: embedInput,
    answers: {
      200: named('OllamaEmbed', v.looseObject({ embeddings: v.array(v.array(v.number())) })),
    },
    answer: embed,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/api/embeddings',
    summary: 'The vector of one text: the earlier form of /api/embed.',
    body: embeddingsInput,
    answers: { 200: named('OllamaEmbedding', object({ embedding: v.array(v.number()) })) },
    answer: embedOne,
  }),
  route({
    ...shared,
    method: 'GET',
    path: '/api/tags',
    summary: "The models of every reachable provider, in Ollama's form.",
    answers: { 200: models },
    answer: listTags,
  }),
  route({
    ...shared,
    method: 'GET',
    path: '/api/ps',
    summary: "The models in memory, in Ollama's form.",
    answers: { 200: models },
    answer: listLoaded,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/api/show',
    scope: 'any',
    summary: "One model, in Ollama's form.",
    body: showInput,
    answers: { 200: named('OllamaModel', v.looseObject({ capabilities: v.array(text) })) },
    answer: showModel,
  }),
  route({
    ...shared,
    method: 'GET',
    path: '/api/version',
    summary: "The version of Ollama's API that is served, and that of svc.",
    answers: { 200: named('OllamaVersion', object({ version: text, svc: text })) },
    answer: showVersion,
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/api/pull',
    summary: 'Downloads a model: its progress, one object a line. Leaving cancels it.',
    body: pullInput,
    answers: { 200: [status, { type: 'application/x-ndjson' }] },
    answer: pull,
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/api/create',
    summary: 'Gives a model another name, with a system text and parameters.',
    body: createInput,
    answers: { 200: [status, { type: 'application/x-ndjson' }] },
    answer: create,
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/api/copy',
    summary: 'Gives a model another name.',
    body: copyInput,
    answers: { 200: null },
    answer: copy,
  }),
  route({
    ...admin,
    method: 'DELETE',
    path: '/api/delete',
    summary: 'Removes such a name, or the file of a local model.',
    body: deleteInput,
    answers: { 200: null },
    answer: remove,
  }),
  refusedRoute('/api/push', 'Publish a model with the tools of its hub.'),
  refusedRoute('/api/blobs/:digest', 'Add a model file with: svc model import <path>'),
];

/** A route that is not served, with what to do instead. */
function refusedRoute(path: string, hint: string): Route {
  return route({
    ...shared,
    method: 'POST',
    path,
    summary: `Not served: 404. ${hint}`,
    answers: {},
    answer: () => {
      throw new SvcError('route_unknown', `The daemon does not serve POST ${path}.`, { hint });
    },
  });
}
