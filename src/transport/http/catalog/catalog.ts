import * as v from 'valibot';
import { provider } from '../../../contract/records.ts';
import { usageRecord } from '../../../contract/usage.ts';
import { named, object } from '../../../contract/vocabulary.ts';
import { usageQuery } from '../../query.ts';
import { sendJson } from '../reply.ts';
import { type Context, type Route, route } from '../route.ts';

/** Lists the providers, and what runs used of them. */
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
    path: '/v1/usage',
    access: 'token',
    summary: 'Runs, tokens and cost, by model, provider, client or day; and the budget of the day.',
    query: usageQuery,
    answers: { 200: usageRecord },
    answer: sendUsage,
  }),
];

function listProviders({ res, runtime }: Context): void {
  sendJson(res, 200, { providers: runtime.providers.list() });
}

async function sendUsage({
  query,
  res,
  runtime,
}: Context<v.InferOutput<typeof usageQuery>>): Promise<void> {
  sendJson(res, 200, await runtime.usage(query));
}
