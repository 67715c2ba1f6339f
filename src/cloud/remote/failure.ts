import { keyPlace } from '../../config/key-reference.ts';
import { type ErrorCode, errors, SvcError } from '../../errors.ts';
import { JsonExcess, JsonMeter, readForeignJson, readJsonBody } from '../../json.ts';
import { type JsonBudget, jsonBudgets } from '../../limits.ts';
import { STORED_KEY } from './read-secrets.ts';
import { quote, type UpstreamError } from './upstream-error.ts';

/** The subject of a request. */
export interface RequestContext {
  /** The place of the key. Null: the provider has no key. */
  key: string | null;
  model: string | null;
}

/**
 * The meaning of a status other than success, for every adapter.
 *
 * 1. The provider's own code comes first: an unknown model, a long prompt, a filter, a quota.
 * 2. 404 with a word about a model: the model is unknown.
 * 3. Known words come next, where the status says only that the request is refused.
 * 4. Otherwise the table says it. A redirect is not followed: credentials do not go elsewhere.
 */
export function statusFailure(
  status: number,
  error: UpstreamError,
  { key, model }: RequestContext,
  retryAfterMs: number | null = null,
): SvcError {
  const failure = ({ code, what, retryable = errors[code].retryable, param, hint }: Meaning) =>
    new SvcError(code, `${what} (status ${status}).${quote(error)}`, {
      ...(hint === undefined ? {} : { hint }),
      param: param ?? error.param ?? undefined,
      retryable,
      retryAfterMs: retryAfterMs ?? error.retryAfterMs,
      status,
    });
  const own = error.codes.map((code) => OWN_CODES.get(code)).find((known) => known !== undefined);
  if (own === 'model_unknown' || (status === 404 && model !== null && error.isAboutModel)) {
    const named =
      model === null ? 'this model' : `the model ${JSON.stringify(model.slice(0, MODEL_MAX))}`;
    return failure({
      code: 'model_unknown',
      what: `The provider does not have ${named}`,
      param: 'model',
      hint: 'Name another one with --model. Those that it lists: svc model list',
    });
  }
  const tellsCause = error.means === 'no_credit' || WORDY.has(status);
  const byCode = tellsCause && error.means !== null ? MEANINGS[error.means] : undefined;
  const meaning = own ?? byCode ?? (status === 401 ? unauthorisedMeaning(key) : STATUSES[status]);
  if (meaning !== undefined) return failure(meaning);
  if (status >= 500) return failure({ code: 'provider_failed', what: 'The provider failed' });
  if (status < 400)
    return failure({
      code: 'provider_not_found',
      what: 'The provider redirects to another address; set its base_url to that',
    });
  return failure({ code: 'provider_rejected', what: 'The provider did not accept the request' });
}

/** Statuses that refuse a long prompt. The words of 429 may be about the tokens of a minute. */
const WORDY: ReadonlySet<number> = new Set([400, 413, 422, 500]);

function unauthorisedMeaning(key: string | null): Meaning {
  return {
    code: 'provider_unauthorised',
    what:
      key === null
        ? 'The provider asks for credentials, and none are configured'
        : key === STORED_KEY
          ? 'The provider refused its stored key'
          : `The provider refused the credentials in ${keyPlace(key)}`,
  };
}

interface Meaning {
  code: ErrorCode;
  what: string;
  /** Default: as the table of errors says. */
  retryable?: boolean;
  param?: string;
  hint?: string;
}

const QUOTA: Meaning = {
  code: 'provider_quota_exceeded',
  what: 'The provider says that the credit or the quota of the account is used up',
};

const STATUSES: Readonly<Record<number, Meaning>> = {
  402: QUOTA,
  403: { code: 'provider_forbidden', what: 'The provider does not allow this request' },
  404: { code: 'provider_not_found', what: 'The provider has nothing at this address' },
  407: {
    code: 'provider_unreachable',
    what: 'The provider is behind a proxy that asks for credentials',
    retryable: false,
  },
  408: { code: 'provider_timed_out', what: 'The provider took too long' },
  409: { code: 'provider_conflict', what: 'The provider reports a conflict' },
  413: { code: 'provider_too_large', what: 'The provider does not take a request of this size' },
  // A stream of Amazon's that broke behind its front.
  424: { code: 'provider_failed', what: 'The model of the provider failed' },
  425: { code: 'provider_busy', what: 'The provider wants the request later' },
  429: { code: 'provider_busy', what: 'The provider had too many requests' },
  503: { code: 'provider_overloaded', what: 'The provider is overloaded or down' },
  504: { code: 'provider_timed_out', what: 'The provider took too long' },
  529: { code: 'provider_overloaded', what: 'The provider is overloaded' },
};

const FILTERED: Meaning = {
  code: 'content_filtered',
  what: 'The provider refused the request by its content filter',
};
const TOO_LONG: Meaning = {
  code: 'context_length_exceeded',
  what: 'The provider says that prompt and answer do not fit the context of the model',
  param: 'messages',
};

const MEANINGS = { too_long: TOO_LONG, no_credit: QUOTA } as const;

/** The codes and types of errors that mean more than their status. */
const OWN_CODES: ReadonlyMap<string, Meaning | 'model_unknown'> = new Map<
  string,
  Meaning | 'model_unknown'
>([
  ['model_not_found', 'model_unknown'],
  ['context_length_exceeded', TOO_LONG],
  ['exceed_context_size_error', TOO_LONG],
  ['content_filter', FILTERED],
  ['content_policy_violation', FILTERED],
  ['insufficient_quota', QUOTA],
  ['billing_hard_limit_reached', QUOTA],
  ['billing_error', QUOTA],
  ['exceeded_current_quota_error', QUOTA],
]);

/** The status that belongs to a type of error, inside a stream that began with success. */
const STATUS_OF_TYPE: ReadonlyMap<string, number> = new Map(
  Object.entries({
    invalid_request_error: 400,
    authentication_error: 401,
    permission_error: 403,
    not_found_error: 404,
    timeout_error: 408,
    request_too_large: 413,
    rate_limit_error: 429,
    rate_limit_exceeded: 429,
    api_error: 500,
    server_error: 500,
    overloaded_error: 529,
    // Google
    INVALID_ARGUMENT: 400,
    UNAUTHENTICATED: 401,
    PERMISSION_DENIED: 403,
    RESOURCE_EXHAUSTED: 429,
    INTERNAL: 500,
    UNAVAILABLE: 503,
    DEADLINE_EXCEEDED: 504,
  }),
);

/** An error inside a response that began with success. Some providers put a status number in it. */
export function toFailure(error: UpstreamError, context: RequestContext): SvcError {
  const known = error.codes.map(statusOfCode).find((status) => status >= 400 && status < 600);
  const status = known ?? (error.means === null ? null : 400);
  if (status !== null) return statusFailure(status, error, context);
  return new SvcError('provider_failed', `The provider reports an error.${quote(error)}`, {
    retryable: true,
    retryAfterMs: error.retryAfterMs,
  });
}

function statusOfCode(code: string): number {
  // The status of a code that means more than a status says nothing more.
  return OWN_CODES.has(code) ? 400 : (STATUS_OF_TYPE.get(code) ?? Number(code));
}

/** The one failure of an incomplete answer. The text so far is kept. */
export function truncatedError(
  message = 'The provider ended its answer without a finish reason.',
): SvcError {
  return new SvcError('stream_truncated', message, { retryable: true, lost: true });
}

/**
 * The stream contains data outside the protocol. Text behind it is not delivered. Not retried: the
 * answer would be identical, and billed again.
 */
export function garbledError(message: string): SvcError {
  return new SvcError(
    'stream_garbled',
    `${message} It is not retried: the answer would be identical.`,
    { retryable: false, lost: true },
  );
}

/** An answer, or one event of it, is larger than its bound. */
export function tooLarge(what: string, most: number, unit = 'bytes'): SvcError {
  return new SvcError(
    'stream_oversized',
    `The provider sends more for ${what} than the daemon accepts (${most} ${unit}).`,
    { retryable: false },
  );
}

/** An answer without the requested content. It is complete, so another one would be identical. */
export function notRead(what: string): SvcError {
  return new SvcError('provider_failed', `The provider answers with ${what}.`, {
    retryable: false,
  });
}

export function tooMuch(what: string, { most, bound }: JsonExcess): SvcError {
  return tooLarge(what, most, bound);
}

/** Reads JSON of a provider. Undefined: it is not JSON. Throws stream_oversized. */
export function readJson(text: string, what: string): unknown {
  try {
    return readForeignJson(text, jsonBudgets.foreign);
  } catch (thrown) {
    throw withSubject(thrown, what);
  }
}

/** As `readJson`, of a whole body. */
export function readBody(
  body: AsyncIterable<Uint8Array>,
  what: string,
  budget: JsonBudget,
): Promise<unknown> {
  return readJsonBody(body, new JsonMeter(budget)).catch((thrown) => {
    throw withSubject(thrown, what);
  });
}

function withSubject(thrown: unknown, what: string): unknown {
  return thrown instanceof JsonExcess ? tooMuch(what, thrown) : thrown;
}

const MODEL_MAX = 120;
