import { asExhausted } from '../../descriptors.ts';
import { type ErrorCode, SvcError } from '../../errors.ts';
import { truncated } from './failure.ts';

/** A request that got no response. */
export function connectionFailure(thrown: unknown, base_url: string): SvcError {
  const own = ownFailure(thrown);
  if (own !== null) return own;
  const code = networkCode(thrown);
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
  } = CONNECTION[code ?? ''] ?? other(code, thrown);
  return new SvcError(
    ours,
    `The provider at ${base_url} ${what}${code === null ? '' : ` (${code})`}.`,
    { retryable },
  );
}

/** A stream that broke off, or could not be read on. */
export function streamFailure(thrown: unknown): SvcError {
  const own = ownFailure(thrown);
  if (own !== null) return own;
  const code = networkCode(thrown);
  if (code === REMOVED) return truncated('The provider was removed in the middle of its answer.');
  return truncated(
    code === null
      ? 'The answer of the provider could not be read to its end.'
      : `The connection to the provider broke in the middle of its answer (${code}).`,
  );
}

/** What is known by name already, and what never came to the provider, since no descriptor was free. */
function ownFailure(thrown: unknown): SvcError | null {
  const own = findInCauses(thrown, (error) => error instanceof SvcError);
  if (own instanceof SvcError) return own;
  return asExhausted(thrown);
}

/** Connections are closed under what they carry in one case only: their provider is no longer wanted. */
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
  EAI_AGAIN: { what: 'has a name that cannot be looked up now', retryable: true },
  ENOTFOUND: { what: 'has a name that is not known to DNS', retryable: false },
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

function other(code: string | null, thrown: unknown): Connection {
  if (code !== null && /CERT|_SIGNED|^ERR_TLS|VERIFY/.test(code))
    return { what: 'has a certificate that is not trusted', retryable: false };
  if (code !== null && /SSL|EPROTO/.test(code))
    return {
      what: 'does not speak TLS as it should; http and https may be confused',
      retryable: false,
    };
  if (findInCauses(thrown, (error) => error.name === 'HTTPParserError') !== null) return noHttp;
  if (findInCauses(thrown, (error) => error.message === 'bad port') !== null)
    return { what: 'has a port that HTTP clients do not use', retryable: false };
  return { what: 'could not be asked', retryable: false };
}

/** The system's or undici's code, wherever in the chain it is; it is a constant, never text of the other side. */
function networkCode(thrown: unknown): string | null {
  const error = findInCauses(
    thrown,
    (link) =>
      'code' in link && typeof link.code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(link.code),
  );
  return error !== null && 'code' in error ? String(error.code) : null;
}

function findInCauses(thrown: unknown, isIt: (error: Error) => boolean): Error | null {
  let error = thrown;
  for (let depth = 0; error instanceof Error && depth < 10; depth += 1) {
    if (isIt(error)) return error;
    error = error.cause;
  }
  return null;
}
