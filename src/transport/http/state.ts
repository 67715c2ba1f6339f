import { readQuery, readWhole } from '../query.ts';
import { sendLarge } from './large.ts';
import type { Context } from './route.ts';

/** The whole picture, now or at an earlier position of the log. */
export async function showState(context: Context): Promise<void> {
  const { req, runtime } = context;
  const at = readAt(req.originalUrl);
  await sendLarge(context, () => runtime.picture(at === undefined ? {} : { at }));
}

/** A position of the log; whether it is there is for the log to say. */
export function readAt(target: string): number | undefined {
  return readWhole(readQuery(target, ['at']), 'at', { min: 1, max: Number.MAX_SAFE_INTEGER });
}
