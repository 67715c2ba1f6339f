import type { SvcError } from '../../errors.ts';

/** An error in the envelope of Anthropic's API. */
export function errorOf(error: SvcError): object {
  const { code, message, hint, param } = error;
  return {
    type: 'error',
    error: {
      type: typeOf(error),
      message: `${message} ${hint}`,
      details: { error_code: code, ...(param === null ? {} : { param }) },
    },
  };
}

function typeOf({ code, spec }: SvcError): string {
  if (OVERLOADED.has(code)) return 'overloaded_error';
  return TYPES[spec.http] ?? (spec.http < 500 ? 'invalid_request_error' : 'api_error');
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
};
/** The daemon or the provider takes no work now. */
const OVERLOADED: ReadonlySet<string> = new Set([
  'not_ready',
  'daemon_stopping',
  'store_stalled',
  'store_full',
  'provider_busy',
  'descriptors_exhausted',
]);
