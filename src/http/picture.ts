import { readQuery, readWhole } from '../query.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/** The whole picture, now or at an earlier position of the log. */
export async function showState({ req, res, runtime, unsent }: Context): Promise<void> {
  const at = readAt(req.originalUrl);
  await unsent.whole(async () => sendJson(res, 200, await runtime.picture(at === undefined ? {} : { at })));
}

/** A position of the log; whether it is there is for the log to say. */
export function readAt(target: string): number | undefined {
  return readWhole(readQuery(target, ['at']), 'at', { min: 1, max: Number.MAX_SAFE_INTEGER });
}
