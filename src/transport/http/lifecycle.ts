import { given } from '../../runtime/contract/check.ts';
import { type LifecycleInput, lifecycleInput } from '../../runtime/contract/inputs.ts';
import { lifecycleResult } from '../../runtime/contract/records.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

export const lifecycleRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/runtime/events',
    access: 'token',
    summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.',
    body: lifecycleInput,
    answers: { 200: lifecycleResult },
    answer: postEvent,
  }),
];

/** Proposes a lifecycle event to the daemon's machine, which accepts or refuses it. */
async function postEvent({ res, runtime, body }: Context<unknown, LifecycleInput>): Promise<void> {
  sendJson(res, 200, await runtime.lifecycle(given(await body()), 'http'));
}
