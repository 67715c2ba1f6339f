import type * as v from 'valibot';
import { usageRecord } from '../../runtime/contract/usage.ts';
import { usageQuery } from '../query.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

export const usageRoutes: readonly Route[] = [
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

async function sendUsage({
  query,
  res,
  runtime,
}: Context<v.InferOutput<typeof usageQuery>>): Promise<void> {
  sendJson(res, 200, await runtime.usage(query));
}
