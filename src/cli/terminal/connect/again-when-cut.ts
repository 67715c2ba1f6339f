import { hasCode } from '../../../errors.ts';

/** A daemon that dies or joins its fleet again closes its connections. A new one may answer. */
export async function againWhenCut<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!hasCode(error, 'connection_lost')) throw error;
    return ask();
  }
}
