import { causesOf } from '../../causes.ts';
import { type ErrorCode, SvcError } from '../../errors.ts';
import { retryAfter } from '../../http-client/retry-after.ts';
import { asRecord } from '../../json.ts';
import { streamFailure } from './connection-failure.ts';
import { type RequestContext, statusFailure } from './failure.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';

/**
 * Errors of the AI SDK hold the prompt and the response. Nothing of them is shown but the message
 * of the upstream, and that only after a check for secrets.
 */
export interface Asking extends RequestContext {
  secrets: Secrets;
}

/** The failure of an error that has a status of HTTP. Null: it has none. */
export function statusOf(error: unknown, context: Asking): SvcError | null {
  const { statusCode, data, responseHeaders } = asRecord(error);
  const status = Number(statusCode);
  if (!Number.isInteger(status) || status < 300 || status > 599) return null;
  const body = data ?? (error instanceof Error ? { message: error.message } : { error });
  const headers = new Headers(asRecord(responseHeaders) as Record<string, string>);
  return statusFailure(
    status,
    parseUpstreamError(body, context.secrets),
    context,
    retryAfter(headers, status),
  );
}

/** The failure of a request that the SDK refused, or could not send. */
export function requestFailure(thrown: unknown, context: Asking): SvcError {
  const causes = causesOf(thrown);
  const own = causes.find((error) => error instanceof SvcError);
  if (own !== undefined) return own;
  for (const error of causes) {
    const reported = statusOf(error, context);
    if (reported !== null) return reported;
    const known = REFUSALS[error.name];
    if (known !== undefined) return known(asRecord(error));
  }
  return streamFailure(thrown);
}

const refusalError = (code: ErrorCode, message: string) =>
  new SvcError(code, message, { retryable: false });

/** By the name of the error. */
const REFUSALS: Record<string, (error: Record<string, unknown>) => SvcError> = {
  AI_UnsupportedFunctionalityError: ({ functionality }) =>
    refusalError(
      'capability_missing',
      `The provider cannot be asked for ${shortName(functionality) ?? 'a part of the request'}.`,
    ),
  AI_LoadAPIKeyError: () =>
    refusalError('provider_unauthorised', 'The provider asks for a key, and none is configured.'),
  AI_LoadSettingError: () =>
    refusalError('provider_unauthorised', 'The adapter lacks a setting, such as credentials.'),
  AI_InvalidPromptError: () =>
    refusalError('provider_rejected', 'The adapter does not take a conversation of this form.'),
  AI_InvalidArgumentError: () =>
    refusalError('provider_rejected', 'The adapter does not take a value of the request.'),
  AI_TooManyEmbeddingValuesForCallError: () =>
    refusalError('provider_rejected', 'The provider takes fewer texts at one time.'),
  AI_TypeValidationError: () =>
    refusalError('provider_failed', 'The provider answers in another form than its adapter reads.'),
  AI_NoSuchModelError: () => refusalError('model_unknown', 'The adapter does not have this model.'),
};

/** The name of a function of the SDK. Anything longer may be a part of the prompt. */
function shortName(value: unknown): string | null {
  return typeof value === 'string' && /^[\w .:'/-]{1,60}$/.test(value) ? value : null;
}
