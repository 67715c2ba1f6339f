import * as v from 'valibot';
import { SvcError } from '../../errors.ts';
import { anything, flag, named, object, text } from '../../runtime/contract/vocabulary.ts';
import { type Route, route } from '../http/route.ts';
import { embed, embeddingsInput, embedInput, embedOne } from './embed.ts';
import { errorOf } from './errors.ts';
import { listLoaded, listTags, showInput, showModel, showVersion } from './models.ts';
import { chat, chatInput, generate, generateInput } from './runs.ts';

const shared = {
  access: 'token',
  unknownFields: 'ignore',
  blanks: true,
  errors: errorOf,
  errorSchema: named('OllamaError', object({ error: text })),
} as const;
const answered = (name: string) => [
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
    answers: { 200: answered('OllamaChat') },
    answer: chat,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/api/generate',
    summary: "The answer to a prompt, in Ollama's form; streams unless `stream` is false.",
    headers: HEADERS,
    body: generateInput,
    answers: { 200: answered('OllamaGenerate') },
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
    scope: 'read',
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
  ...[
    refused('POST', '/api/pull', 'Download a model with: svc model pull <reference>'),
    refused('POST', '/api/create', 'Add a model file with: svc model pull <reference>'),
    refused('POST', '/api/copy', 'Add a model under another name with: svc model pull --name'),
    refused('POST', '/api/push', 'Publish a model with the tools of its hub.'),
    refused('DELETE', '/api/delete', 'Remove a model with: svc model remove <id>'),
  ],
];

/** A route that changes models. The command line does that. */
function refused(method: 'POST' | 'DELETE', path: string, hint: string): Route {
  return route({
    ...shared,
    method,
    path,
    summary: `Not served: 404. ${hint}`,
    answers: {},
    answer: () => {
      throw new SvcError('route_unknown', `The daemon does not serve ${method} ${path}.`, { hint });
    },
  });
}
