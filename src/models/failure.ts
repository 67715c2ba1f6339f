import { isCertificateCode, systemCode } from '../causes.ts';
import { type ErrorCode, isStoreError, SvcError, type SvcErrorOptions } from '../errors.ts';

/** An error of a download. By default another attempt does not help. */
export function pullError(
  code: ErrorCode,
  message: string,
  options: SvcErrorOptions = {},
): SvcError {
  return new SvcError(code, message, { retryable: false, ...options });
}

/** Anything thrown as an error of a download. Of a foreign error only its system code is shown. */
export function asPullError(thrown: unknown): SvcError {
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
  return pullError('pull_failed', 'The download failed. The reason is in the log.', {
    cause: thrown,
  });
}

/** The error of a request without a response, or of a broken response. */
export function connectionError(thrown: unknown, host: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const code = systemCode(thrown);
  const suffix = code === null ? '' : ` (${code})`;
  if (isCertificateCode(code))
    return pullError('pull_failed', `${host} has a certificate that is not trusted${suffix}.`, {
      cause: thrown,
    });
  return pullError('pull_failed', `The connection to ${host} failed${suffix}.`, {
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
