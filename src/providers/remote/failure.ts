import { keyPlace } from '../../config/key-reference.ts';
import { type ErrorCode, SvcError } from '../../errors.ts';
import { quote, type UpstreamError } from './upstream-error.ts';

/** What a request was about. */
export interface RequestContext {
  /** Where the key is. Null: there is none. */
  key: string | null;
  model: string | null;
}

/**
 * The meaning of a status other than success.
 *
 * 1. The provider's own code comes first: an unknown model, or a prompt that is too long.
 * 2. 401, 403: the provider refuses the credentials. 407: a proxy asks for some.
 * 3. 404 with a word about a model: the model is unknown.
 * 4. 429: the provider is busy. Its Retry-After header says how long to wait.
 * 5. 408, 409, 5xx: the provider failed. A retry may succeed.
 * 6. 3xx: another address. Credentials do not follow redirects. Any other: the request is rejected.
 */
export function statusFailure(
  status: number,
  error: UpstreamError,
  { key, model }: RequestContext,
  retryAfterMs: number | null = null,
): SvcError {
  const failure = (code: ErrorCode, what: string, retryable: boolean, param?: string) =>
    new SvcError(code, `${what} (status ${status}).${quote(error)}`, {
      param,
      retryable,
      retryAfterMs,
      status,
    });
  const named =
    model === null ? 'this model' : `the model ${JSON.stringify(model.slice(0, MODEL_MAX))}`;
  if (error.code === 'model_not_found')
    return failure('model_unknown', `The provider does not have ${named}`, false);
  if (error.code !== null && TOO_LONG.has(error.code))
    return failure(
      'context_length_exceeded',
      'Prompt and answer do not fit the context of the model',
      false,
      'messages',
    );
  if (status === 407)
    return failure(
      'provider_unreachable',
      'The proxy before the provider asks for credentials',
      false,
    );
  if (status === 401 || status === 403) {
    return failure(
      'provider_unauthorised',
      key === null
        ? 'The provider asks for credentials, and none are configured'
        : `The provider refused the credentials in ${keyPlace(key)}`,
      false,
    );
  }
  if (status === 404 && model !== null && error.isAboutModel)
    return failure('model_unknown', `The provider does not have ${named}`, false);
  if (status === 429) return failure('provider_busy', 'The provider is busy', true);
  if (status === 408 || status === 409 || status >= 500)
    return failure('provider_failed', 'The provider failed', true);
  if (status === 404)
    return failure(
      'provider_rejected',
      'The provider has nothing at this address; a base_url usually ends in /v1',
      false,
    );
  if (status < 400)
    return failure(
      'provider_rejected',
      'The provider redirects to another address; set its base_url to that',
      false,
    );
  return failure('provider_rejected', 'The provider did not accept the request', false);
}

/** An error inside a response that began with success. Some providers put a status number in it. */
export function toFailure(error: UpstreamError, context: RequestContext): SvcError {
  const status = Number(error.code);
  if (Number.isInteger(status) && status >= 400 && status < 600)
    return statusFailure(status, error, context);
  return new SvcError('provider_failed', `The provider reports an error.${quote(error)}`, {
    retryable: true,
  });
}

/** The one failure of an incomplete answer. The text so far is kept. */
export function truncated(
  message = 'The provider ended its answer without a finish reason.',
): SvcError {
  return new SvcError('stream_truncated', message, { retryable: true, lost: true });
}

/** An answer, or one event of it, is larger than its bound. */
export function tooLarge(what: string, bytesMax: number): SvcError {
  return new SvcError(
    'provider_failed',
    `The provider sends more for ${what} than the daemon accepts (${bytesMax} bytes).`,
    { retryable: false },
  );
}

export function tooDeep(): SvcError {
  return new SvcError(
    'provider_failed',
    'The provider sends an event with too many levels or parts.',
    { retryable: false },
  );
}

const MODEL_MAX = 120;
const TOO_LONG = new Set(['context_length_exceeded', 'exceed_context_size_error']);
