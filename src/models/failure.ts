import { type ErrorCode, isStoreError, SvcError, type SvcErrorOptions } from '../errors.ts';

/** Why an attempt to fetch a model failed. Unless the options say so, another attempt is of no use. */
export function pullError(
  code: ErrorCode,
  message: string,
  options: SvcErrorOptions = {},
): SvcError {
  return new SvcError(code, message, { retryable: false, ...options });
}

/** Whatever was thrown, as one of ours; of a foreign error only a constant of the system is told. */
export function asPullFailure(thrown: unknown): SvcError {
  if (thrown instanceof SvcError && !isStoreError(thrown)) return thrown;
  const code = systemCode(thrown);
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return pullError('pull_failed', 'The disk of the models folder is full.', {
      cause: thrown,
    });
  if (code !== null && FILE_CODES.has(code))
    return pullError('pull_failed', `The models folder cannot be used (${code}).`, {
      cause: thrown,
    });
  return pullError(
    'pull_failed',
    'The model could not be fetched, for a reason that is in the log.',
    { cause: thrown },
  );
}

/** A request that got no answer, or one that broke off. */
export function brokenOff(thrown: unknown, host: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const code = systemCode(thrown);
  const told = code === null ? '' : ` (${code})`;
  if (code !== null && /CERT|_SIGNED|^ERR_TLS|VERIFY/.test(code))
    return pullError('pull_failed', `${host} has a certificate that is not trusted${told}.`, {
      cause: thrown,
    });
  return pullError('pull_failed', `The connection to ${host} failed${told}.`, {
    retryable: true,
    cause: thrown,
  });
}

const FILE_CODES = new Set([
  'EACCES',
  'EPERM',
  'EROFS',
  'EIO',
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'ELOOP',
  'EMFILE',
  'ENFILE',
  'EFBIG',
  'ENAMETOOLONG',
  'EBUSY',
  'ENXIO',
]);

/** The code of the system or of undici, wherever in the chain of causes it is. */
function systemCode(thrown: unknown): string | null {
  let error = thrown;
  for (let depth = 0; error instanceof Error && depth < 10; depth += 1) {
    if ('code' in error && typeof error.code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(error.code))
      return error.code;
    error = error.cause;
  }
  return null;
}
