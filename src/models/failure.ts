import { isCertificateCode, systemCode } from '../causes.ts';
import { type ErrorCode, errors, isStoreError, SvcError, type SvcErrorOptions } from '../errors.ts';

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
      hint: `Free some space. ${GOES_ON}`,
    });
  if (code !== null && FILE_CODES.has(code))
    return pullError('pull_failed', `The models folder cannot be used (${code}).`, {
      cause: thrown,
      hint: 'Check who may write there. See: svc model list, svc doctor',
    });
  return pullError('pull_failed', 'The download failed. The reason is in the log.', {
    cause: thrown,
    hint: 'See: svc logs --level debug',
  });
}

/** Another download has the file. */
export const ANOTHER = 'Wait until it has ended, or give the model another name with --name.';
/** What keeps the bytes that it has. */
export const GOES_ON = errors.pull_cancelled.hint;

/** The error of a request without a response, or of a broken response. */
export function connectionError(thrown: unknown, host: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const code = systemCode(thrown);
  const suffix = code === null ? '' : ` (${code})`;
  if (isCertificateCode(code))
    return pullError('pull_failed', `${host} has a certificate that is not trusted${suffix}.`, {
      cause: thrown,
      hint:
        'A proxy may be in between. For a private certificate set NODE_EXTRA_CA_CERTS and run: ' +
        'svc restart',
    });
  if (code === UNKNOWN_NAME || code === 'EAI_AGAIN')
    return pullError('pull_failed', `No address is known for ${host}${suffix}.`, {
      retryable: true,
      cause: thrown,
      hint: OFFLINE,
    });
  return pullError('pull_failed', `The connection to ${host} failed${suffix}.`, {
    retryable: true,
    cause: thrown,
    hint: OFFLINE,
  });
}

/** No host has the name, as far as the network knows, or nothing listens there. */
const UNKNOWN_NAME = 'ENOTFOUND';
const ABSENT: readonly (string | null)[] = [UNKNOWN_NAME, 'ECONNREFUSED'];
const OFFLINE =
  'Check the network and the name of the host. The daemon takes a proxy from HTTPS_PROXY, and ' +
  'another hub from HF_ENDPOINT.';

/** Whether a pull that has no byte yet gains nothing from a further attempt. */
export function isAbsent({ cause }: SvcError): boolean {
  return ABSENT.includes(systemCode(cause));
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
