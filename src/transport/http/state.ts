import { stateSnapshot } from '../../runtime/contract/history.ts';
import { type AtQuery, atQuery } from '../query.ts';
import { sendLarge } from './large.ts';
import { type Context, type Route, route } from './route.ts';

export const stateRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/runtime/state',
    access: 'token',
    summary:
      'The whole state: daemon, machines, runs, queue, providers, engine; with `?at=<seq>` as it was after that event.',
    query: atQuery,
    answers: { 200: stateSnapshot },
    answer: showState,
  }),
];

/** The state of the whole daemon, now or at an earlier position of the log. */
async function showState(context: Context<AtQuery>): Promise<void> {
  const { query, runtime } = context;
  await sendLarge(context, () => runtime.snapshot(query));
}
