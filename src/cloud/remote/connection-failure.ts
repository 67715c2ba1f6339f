import { causesOf, isCertificateCode, systemCode } from '../../causes.ts';
import { asExhausted } from '../../descriptors.ts';
import { type ErrorCode, SvcError } from '../../errors.ts';
import { truncatedError } from './failure.ts';

/** The failure of a request without a response. */
export function connectionFailure(thrown: unknown, base_url: string): SvcError {
  const own = ownFailure(thrown);
  if (own !== null) return own;
  const code = systemCode(thrown);
  if (code === REMOVED)
    return new SvcError(
      'provider_unreachable',
      `The provider at ${base_url} was removed before it answered.`,
      { retryable: false },
    );
  const {
    what,
    retryable,
    code: ours = 'provider_unreachable',
  } = CONNECTION[code ?? ''] ?? otherFailure(code, thrown);
  return new SvcError(
    ours,
    `The provider at ${base_url} ${what}${code === null ? '' : ` (${code})`}.`,
    { retryable },
  );
}

/** The failure of a stream that broke or cannot be read. */
export function streamFailure(thrown: unknown): SvcError {
  const own = ownFailure(thrown);
  if (own !== null) return own;
  const code = systemCode(thrown);
  if (code === REMOVED)
    return truncatedError('The provider was removed in the middle of its answer.');
  return truncatedError(
    code === null
      ? 'The provider sent an answer that could not be read to its end.'
      : `The provider broke the connection in the middle of its answer (${code}).`,
  );
}

/** An error of the table in the chain of causes, or a lack of descriptors. */
function ownFailure(thrown: unknown): SvcError | null {
  return causesOf(thrown).find((error) => error instanceof SvcError) ?? asExhausted(thrown);
}

/** undici reports it for a destroyed connection: the provider was removed. */
const REMOVED = 'UND_ERR_DESTROYED';

interface Connection {
  what: string;
  retryable: boolean;
  code?: ErrorCode;
}

const closed: Connection = { what: 'closed the connection before it answered', retryable: true };
const slow: Connection = { what: 'does not take the connection in time', retryable: true };
const remote: Connection = { what: 'cannot be reached from here', retryable: true };
const noHttp: Connection = {
  what: 'does not answer in HTTP',
  retryable: false,
  code: 'provider_failed',
};

const CONNECTION: Record<string, Connection> = {
  ECONNREFUSED: { what: 'refuses the connection', retryable: true },
  ECONNRESET: closed,
  EPIPE: closed,
  UND_ERR_SOCKET: closed,
  ETIMEDOUT: slow,
  UND_ERR_CONNECT_TIMEOUT: slow,
  EHOSTUNREACH: remote,
  ENETUNREACH: remote,
  EAI_AGAIN: {
    what: 'has a name that cannot be looked up now',
    retryable: true,
    code: 'provider_address_unknown',
  },
  ENOTFOUND: {
    what: 'has a name that is not known to DNS',
    retryable: false,
    code: 'provider_address_unknown',
  },
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: noHttp,
  UND_ERR_HEADERS_OVERFLOW: {
    what: 'sends larger headers than the daemon takes',
    retryable: false,
    code: 'provider_failed',
  },
  UND_ERR_ABORTED: {
    what: 'cannot be reached through the proxy of the environment',
    retryable: true,
  },
};

function otherFailure(code: string | null, thrown: unknown): Connection {
  if (isCertificateCode(code))
    return {
      what: 'has a certificate that is not trusted',
      retryable: false,
      code: 'provider_tls_failed',
    };
  if (code !== null && /SSL|EPROTO/.test(code))
    return {
      what: 'does not speak TLS as it should; http and https may be confused',
      retryable: false,
      code: 'provider_tls_failed',
    };
  if (causesOf(thrown).some(({ name }) => name === 'HTTPParserError')) return noHttp;
  return { what: 'could not be called', retryable: false };
}
