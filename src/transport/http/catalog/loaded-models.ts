import type * as v from 'valibot';
import { loadInput } from '../../../contract/inputs.ts';
import { loadedModel, loadedModels, unloadedModel } from '../../../contract/loaded-models.ts';
import { name, named, object } from '../../../contract/vocabulary.ts';
import { sendJson } from '../reply.ts';
import { type Context, type Route, route } from '../route.ts';
import { clientGone } from '../run-request.ts';

const unloadInput = named('UnloadInput', object({ model: name() }));

/** Which local models are in memory. */
export const loadedModelRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/models/loaded',
    access: 'token',
    summary: 'Local models in memory, those on their way, and the bound of their memory.',
    answers: { 200: loadedModels },
    answer: ({ res, runtime }: Context) => sendJson(res, 200, runtime.loads.list()),
  }),
  route({
    method: 'POST',
    path: '/v1/models/load',
    access: 'token',
    summary: 'Loads a local model. The answer comes when it is in memory.',
    body: loadInput,
    answers: { 200: loadedModel },
    answer: load,
  }),
  route({
    method: 'POST',
    path: '/v1/models/unload',
    access: 'token',
    summary: 'Removes a local model from memory. While it answers runs, that is 409.',
    body: unloadInput,
    answers: { 200: unloadedModel },
    answer: unload,
  }),
];

async function load(context: Context<unknown, v.InferOutput<typeof loadInput>>): Promise<void> {
  const input = await context.body();
  sendJson(context.res, 200, await context.runtime.loads.load(input, clientGone(context)));
}

async function unload(context: Context<unknown, v.InferOutput<typeof unloadInput>>): Promise<void> {
  const { model } = await context.body();
  sendJson(context.res, 200, await context.runtime.loads.unload(model));
}
