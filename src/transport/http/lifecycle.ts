import { parseLifecycleInput } from '../../runtime/contract/inputs.ts';
import { readJson } from './body.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/** Proposes a lifecycle event to the daemon's machine, which accepts or refuses it. */
export async function postEvent({ req, res, runtime, limits, ended }: Context): Promise<void> {
  const event = parseLifecycleInput(await readJson(req, res, limits.body_bytes, { ended }));
  sendJson(res, 200, await runtime.lifecycle(event, 'http'));
}
