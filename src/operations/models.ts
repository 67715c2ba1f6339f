import * as v from 'valibot';
import { rerankInput, reranking } from '../contract/embed-input.ts';
import { loadInput, providerInput, pullInput } from '../contract/inputs.ts';
import { loadedModel, loadedModels, unloadedModel } from '../contract/loaded-models.ts';
import type { ModelRecord } from '../contract/model-record.ts';
import { provider } from '../contract/records.ts';
import { name, named, object } from '../contract/vocabulary.ts';
import type { PullRecord } from '../runtime/pulls/record.ts';
import { operation, transportOperation } from './row.ts';

/** The operations on models and providers. */

const one = v.object({ id: name() });

export const modelOperations = {
  'model.list': operation({
    summary: 'The models of every reachable provider.',
    answers:
      '`models` of every reachable provider, the `folder` of models, `partial` downloads in it',
    access: 'any',
    tool: { name: 'list_models' },
    grpc: { rpc: 'Models', answer: 'ModelList', request: {} },
    call: async ({ runtime: { models } }) => ({
      models: await models.list(),
      ...(await models.place()),
    }),
  }),
  'model.show': operation({
    answers: 'the model with its metadata',
    params: one,
    access: 'sees model',
    method: 'models.show',
    call: ({ runtime }, { id }) => runtime.models.show(id),
  }),
  'model.remove': operation({
    summary: 'Deletes the file of a local model.',
    answers: 'the model that was deleted',
    params: one,
    access: 'admin',
    method: 'models.remove',
    http: 'POST /v1/models/remove',
    call: ({ runtime }, { id }) => runtime.models.remove(id),
  }),
  'model.import': operation({
    answers: 'the model, whose file is now in the models folder',
    params: v.object({ path: name(4096), name: v.nullish(name()) }),
    access: 'admin',
    method: 'pulls.import',
    call: ({ runtime, signal }, input) => runtime.pulls.import(input, signal),
  }),
  'model.use': operation({
    answers: 'the model, now the default of the local engine',
    params: one,
    access: 'admin',
    method: 'models.use',
    call: ({ runtime }, { id }) => runtime.models.use(id),
  }),
  'model.aliases': operation({
    answers: '`aliases`: names of models by alias',
    access: 'any',
    method: 'models.aliases',
    call: ({ runtime }) => ({ aliases: runtime.models.aliases() }),
  }),
  'model.alias': operation({
    answers: '`aliases` after the change. Without a model the alias is removed',
    params: v.object({ name: name(128), model: v.nullish(name()) }),
    access: 'admin',
    method: 'models.setAlias',
    call: ({ runtime }, { name, model = null }) => runtime.models.setAlias(name, model),
  }),
  'model.create': operation({
    answers: 'the model that a Modelfile makes. Its relative paths begin at `folder`',
    params: v.object({ name: name(128), modelfile: v.string(), folder: v.nullish(name(4096)) }),
    access: 'admin',
    method: 'models.createFrom',
    call: ({ runtime }, { folder = null, ...input }) =>
      runtime.models.createFrom({ ...input, folder }),
  }),
  'model.ps': operation({
    summary: 'Local models in memory, those on their way, and the bound of their memory.',
    answers: '`models` in memory, and the bound of their memory',
    result: loadedModels,
    access: 'any',
    method: 'loads.list',
    http: 'GET /v1/models/loaded',
    call: ({ runtime }) => runtime.loads.list(),
  }),
  'model.load': operation({
    summary: 'Loads a local model. The answer comes when it is in memory.',
    answers: 'the model, once it is in memory',
    params: loadInput,
    result: loadedModel,
    access: 'asks model',
    method: 'loads.load',
    http: 'POST /v1/models/load',
    call: ({ runtime, signal }, input) => runtime.loads.load(input, signal),
  }),
  'model.unload': operation({
    summary: 'Removes a local model from memory. While it answers runs, that is 409.',
    answers: '`unloaded`: the id of the model that is not in memory, and `freed_bytes`',
    params: named('UnloadInput', object({ model: name() })),
    result: unloadedModel,
    access: 'asks model',
    method: 'loads.unload',
    http: 'POST /v1/models/unload',
    call: ({ runtime }, { model }) => runtime.loads.unload(model),
  }),
  rerank: operation({
    summary: 'Scores documents for a query, the best one first. It starts no run; no text is kept.',
    params: rerankInput,
    result: reranking,
    access: 'run',
    http: 'POST /v1/rerank',
    also: ['/rerank', '/v2/rerank'],
    grpc: {
      rpc: 'Rerank',
      answer: 'Reranking',
      fields: {
        model: { id: 1, says: '`provider/name`.' },
        results: { id: 2, type: 'RankedDocument' },
        usage: { id: 3, type: 'RerankUsage', says: 'Absent: the provider does not count tokens.' },
      },
      request: {
        query: 1,
        documents: 2,
        model: 3,
        provider: 4,
        cloud: 5,
        top_n: { id: 6, says: 'The best ones alone. Absent: all.' },
        return_documents: 7,
      },
    },
    call: ({ runtime, by, signal }, input) =>
      runtime.embeddings.rerank(input, { client: by }, signal),
  }),
  'model.search': operation({
    answers: '`models` of the hub, the most downloaded first: reference, downloads, licence',
    params: v.object({ words: name(255) }),
    access: 'admin',
    method: 'pulls.search',
    call: async ({ runtime, signal }, { words }) => ({
      models: await runtime.pulls.search(words, signal),
    }),
  }),
  'model.pull': transportOperation<ModelRecord | null, PullRecord>()({
    summary: 'Downloads a model: its record at each change, one a line. Leaving cancels it.',
    answers: 'progress at each change, then the model',
    params: named('PullInput', pullInput),
    streams: true,
    access: 'admin',
    method: 'pulls.pull',
    http: 'POST /v1/models/pull',
  }),
  'model.pull_cancel': operation({
    answers: '`cancelled`: false when other clients wait for the same pull',
    params: one,
    access: 'admin',
    method: 'pulls.cancel',
    call: ({ runtime, by }, { id }) => runtime.pulls.cancel(id, by),
  }),
  'provider.list': operation({
    summary: 'Providers, their state and why.',
    answers: '`providers` with state and reason',
    result: named('Providers', object({ providers: v.array(provider) })),
    access: 'any',
    method: 'providers.list',
    http: 'GET /v1/providers',
    tool: { name: 'list_providers' },
    grpc: { rpc: 'Providers', answer: 'ProviderList', request: {} },
    call: ({ runtime }) => ({ providers: runtime.providers.list() }),
  }),
  'provider.add': operation({
    summary: 'Adds a known provider, or a server on this machine.',
    answers: 'the provider',
    params: providerInput,
    result: provider,
    access: 'admin',
    method: 'providers.add',
    http: 'POST /v1/providers',
    call: ({ runtime }, input) => runtime.providers.add(input),
  }),
  'provider.set': operation({
    answers: 'the provider with its new settings; null removes a header or an option',
    params: providerInput,
    access: 'admin',
    method: 'providers.set',
    call: ({ runtime }, input) => runtime.providers.set(input),
  }),
  'provider.use': operation({
    summary: 'Makes it the provider of runs that name none.',
    answers: 'the provider, now the default',
    params: one,
    result: provider,
    access: 'admin',
    method: 'providers.use',
    http: 'POST /v1/providers/:id/default',
    call: ({ runtime }, { id }) => runtime.providers.use(id),
  }),
  'provider.remove': operation({
    summary: 'Removes a provider.',
    answers: 'the provider',
    params: one,
    result: provider,
    access: 'admin',
    method: 'providers.remove',
    http: 'DELETE /v1/providers/:id',
    call: ({ runtime }, { id }) => runtime.providers.remove(id),
  }),
  'provider.key': operation({
    answers: 'the provider, after its stored key is read again. The key is not in the request',
    params: one,
    access: 'admin',
    method: 'providers.rereadKey',
    call: ({ runtime }, { id }) => runtime.providers.rereadKey(id),
  }),
  'provider.test': operation({
    summary: 'Asks a provider whether it answers, and waits for the outcome.',
    answers: 'the provider, after one request that spends no token',
    params: one,
    result: provider,
    access: 'admin',
    method: 'providers.test',
    http: 'POST /v1/providers/:id/test',
    call: ({ runtime }, { id }) => runtime.providers.test(id),
  }),
};
