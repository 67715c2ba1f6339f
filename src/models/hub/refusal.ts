import type { SvcError } from '../../errors.ts';
import { retryAfter } from '../../http-client/retry-after.ts';
import { pullError } from '../failure.ts';
import type { Answer } from './client.ts';

export const FIND = { hint: 'Check the name. To find another one: svc model search <words> --hub' };

/**
 * The meaning of a response without the file. `what` was requested; `hub` is the host that guards
 * it, if any.
 */
export function refusal(
  { status, headers, host }: Pick<Answer, 'status' | 'headers' | 'host'>,
  what: string,
  hub: string | null,
): SvcError {
  const says = headers.get('x-error-code') ?? '';
  if (says === 'GatedRepo')
    return pullError(
      'pull_refused',
      `${host} sends ${what} only to users who accepted its terms, with their token (${status}).`,
    );
  if (says === 'RepoNotFound')
    return pullError(
      'model_unknown',
      `${host} has no ${what}, or hides it from this user (${status}).`,
      FIND,
    );
  if (status === 404 || status === 410)
    return pullError('model_unknown', `${host} has no ${what} (${status}).`, FIND);
  const expired = (status === 401 || status === 403) && hub !== null && hub !== host;
  if (expired || status === 408 || status === 425 || status === 429 || status >= 500) {
    return pullError('pull_failed', `${host} does not send ${what} now (${status}).`, {
      retryable: true,
      retryAfterMs: retryAfter(headers, status),
    });
  }
  if (status === 401 || status === 403)
    return pullError(
      'pull_refused',
      `${host} refuses to send ${what} (${status}).`,
      hub === null
        ? { hint: 'svc sends a token to the hub only. Use an address that needs none.' }
        : {},
    );
  return pullError('pull_failed', `${host} does not send ${what} (${status}).`);
}
