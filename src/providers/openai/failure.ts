import { type ErrorCode, SvcError } from '../../errors.ts';
import { quote, type Said } from './upstream-error.ts';

/** What the request was about. */
export interface Asked {
  key_env: string | null;
  model: string | null;
}

/**
 * What a status other than success means.
 *
 * 1. The provider's code says what it is: no such model, or a prompt that is too long.
 * 2. 401, 403: the credentials are refused. 407: that was the proxy on the way.
 * 3. 404 with a word about a model: there is no such model.
 * 4. 429: too much to do; with the wait that it asks for.
 * 5. 408, 409, 5xx: it failed, and may not the next time.
 * 6. 3xx: it is elsewhere; credentials do not follow. Any other: it did not accept the request.
 */
export function statusFailure(
  status: number,
  said: Said,
  { key_env, model }: Asked,
  retryAfterMs: number | null = null,
): SvcError {
  const failure = (code: ErrorCode, what: string, retryable: boolean) =>
    new SvcError(code, `${what} (status ${status}).${quote(said)}`, {
      retryable,
      retryAfterMs,
      status,
    });
  const named =
    model === null ? 'this model' : `the model ${JSON.stringify(model.slice(0, MODEL_MAX))}`;
  if (said.code === 'model_not_found')
    return failure('model_unknown', `The provider does not have ${named}`, false);
  if (said.code !== null && TOO_LONG.has(said.code))
    return failure(
      'context_length_exceeded',
      'Prompt and answer do not fit the context of the model',
      false,
    );
  if (status === 407)
    return failure(
      'provider_unreachable',
      'The proxy on the way to the provider asks for credentials',
      false,
    );
  if (status === 401 || status === 403) {
    return failure(
      'provider_unauthorised',
      key_env === null
        ? 'The provider asks for credentials, and none are configured'
        : `The provider refused the credentials in ${key_env}`,
      false,
    );
  }
  if (status === 404 && model !== null && said.isAboutModel)
    return failure('model_unknown', `The provider does not have ${named}`, false);
  if (status === 429) return failure('provider_busy', 'The provider has too much to do', true);
  if (status === 408 || status === 409 || status >= 500)
    return failure('provider_failed', 'The provider failed', true);
  if (status === 404)
    return failure(
      'provider_rejected',
      'The provider has nothing at this address; a base_url mostly ends in /v1',
      false,
    );
  if (status < 400)
    return failure(
      'provider_rejected',
      'The provider sends us to another address; set its base_url to that',
      false,
    );
  return failure('provider_rejected', 'The provider did not accept the request', false);
}

/** An error inside a response that had begun well. Some providers give it the number of a status. */
export function saidFailure(said: Said, asked: Asked): SvcError {
  const status = Number(said.code);
  if (Number.isInteger(status) && status >= 400 && status < 600)
    return statusFailure(status, said, asked);
  return new SvcError('provider_failed', `The provider reports an error.${quote(said)}`, {
    retryable: true,
  });
}

/** The one failure of an answer that is not complete: the text so far is kept. */
export function truncated(
  message = 'The provider ended its answer without saying that it was complete.',
): SvcError {
  return new SvcError('stream_truncated', message, { retryable: true, lost: true });
}

/** An answer, or an event of it, beyond its bound. */
export function tooLarge(what: string, bytes_max: number): SvcError {
  return new SvcError(
    'provider_failed',
    `The provider sends more for ${what} than the daemon takes (${bytes_max} bytes).`,
    { retryable: false },
  );
}

export function tooDeep(): SvcError {
  return new SvcError(
    'provider_failed',
    'The provider sends an event with more levels or parts than any answer has.',
    { retryable: false },
  );
}

const MODEL_MAX = 120;
const TOO_LONG = new Set(['context_length_exceeded', 'exceed_context_size_error']);
