import * as v from 'valibot';
import type { ModelRecord } from '../../providers/port.ts';
import { provider } from '../../runtime/contract/records.ts';
import { anything, named, object, text } from '../../runtime/contract/vocabulary.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

/** Lists providers and their models. */
export const catalogRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/providers',
    access: 'token',
    summary: 'Providers, their state and why.',
    answers: { 200: named('Providers', object({ providers: v.array(provider) })) },
    answer: listProviders,
  }),
  route({
    method: 'GET',
    path: '/v1/models',
    access: 'token',
    summary: 'Models of every reachable provider, as a list in the OpenAI form.',
    answers: { 200: named('Models', object({ object: text, data: v.array(anything) })) },
    answer: listModels,
  }),
];

function listProviders({ res, runtime }: Context): void {
  sendJson(res, 200, { providers: runtime.listProviders() });
}

async function listModels({ res, runtime }: Context): Promise<void> {
  sendJson(res, 200, { object: 'list', data: (await runtime.listModels()).map(openaiModel) });
}

/** A model in the OpenAI form, with our fields added. `created` is unknown: 0. */
function openaiModel({ path: _, ...model }: ModelRecord): Record<string, unknown> {
  return { ...model, object: 'model', created: 0, owned_by: model.provider };
}
