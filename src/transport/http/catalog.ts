import * as v from 'valibot';
import { provider } from '../../runtime/contract/records.ts';
import { named, object } from '../../runtime/contract/vocabulary.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

/** Lists the providers. */
export const catalogRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/providers',
    access: 'token',
    summary: 'Providers, their state and why.',
    answers: { 200: named('Providers', object({ providers: v.array(provider) })) },
    answer: listProviders,
  }),
];

function listProviders({ res, runtime }: Context): void {
  sendJson(res, 200, { providers: runtime.listProviders() });
}
