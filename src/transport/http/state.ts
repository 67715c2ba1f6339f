import { atQuery, readQuery } from '../query.ts';
import { sendLarge } from './large.ts';
import type { Context } from './route.ts';

/** The state of the whole daemon, now or at an earlier position of the log. */
export async function showState(context: Context): Promise<void> {
  const { req, runtime } = context;
  const query = readQuery(req.originalUrl, atQuery);
  await sendLarge(context, () => runtime.snapshot(query));
}
