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

function typeOf({ code, http }: SvcError): string {
  return BY_CODE[code] ?? BY_STATUS[http] ?? (http < 500 ? 'invalid_request_error' : 'api_error');
}

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};
/** The daemon or the provider takes no work now, or the account at the provider is empty. */
const BY_CODE: Readonly<Record<string, string>> = {
  not_ready: 'overloaded_error',
  daemon_stopping: 'overloaded_error',
  store_stalled: 'overloaded_error',
  store_full: 'overloaded_error',
  descriptors_exhausted: 'overloaded_error',
  provider_overloaded: 'overloaded_error',
  provider_quota_exceeded: 'billing_error',
};
