import { given } from '../../contract/check.ts';
import { stateSnapshot } from '../../contract/history.ts';
import { type LifecycleInput, lifecycleInput } from '../../contract/inputs.ts';
import { lifecycleResult } from '../../contract/records.ts';
import { type AtQuery, atQuery } from '../query.ts';
import { sendLarge } from './large.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

export const runtimeRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/runtime/events',
    access: 'token',
    scope: 'admin',
    summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.',
    body: lifecycleInput,
    answers: { 200: lifecycleResult },
    answer: postEvent,
  }),
  route({
    method: 'GET',
    path: '/v1/runtime/state',
    access: 'token',
    scope: 'read',
    summary:
      'The whole state: daemon, machines, runs, queue, providers, engine; ' +
      'with `?at=<seq>` as it was after that event.',
    query: atQuery,
    answers: { 200: stateSnapshot },
    answer: showState,
  }),
];

/** Proposes a lifecycle event to the daemon's machine, which accepts or refuses it. */
async function postEvent({ res, runtime, body }: Context<unknown, LifecycleInput>): Promise<void> {
  sendJson(res, 200, await runtime.lifecycle(given(await body()), 'http'));
}

/** The state of the whole daemon, now or at an earlier position of the log. */
async function showState(context: Context<AtQuery>): Promise<void> {
  const { query, runtime } = context;
  await sendLarge(context, () => runtime.history.snapshot(query));
}
