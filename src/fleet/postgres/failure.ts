import { RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import { codeOf } from '../../kernel/store/failure.ts';

/** Codes of PostgreSQL begin with a class of two characters. */
const AWAY_CLASSES = ['08', '53', '57', '58'];
/**
 * Errors that pass when the statement is sent again: a standby, a conflict of two transactions, a
 * timeout.
 */
const AGAIN = ['25006', '40001', '40P01', '55P03', '57014'];
/** Errors of the system while it connects, or on a connection. */
const NETWORK =
  /^(ECONN|ENOENT$|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|EPIPE|EAI_|ENOTFOUND|EADDRNOTAVAIL|ERR_STREAM)/;
/** The library has no code for these. */
const BROKEN =
  /^(Connection terminated|Client has encountered a connection error|timeout ex|Query read timeout|Client was closed|Cannot use a pool after)/i;

/** The database does not answer now, and may do so later. */
export function isAway(error: unknown): boolean {
  const code = codeOf(error);
  if (isFullDisk(error)) return false;
  if (isState(code)) return AGAIN.includes(code) || AWAY_CLASSES.includes(code.slice(0, 2));
  return NETWORK.test(code) || (error instanceof Error && BROKEN.test(error.message));
}

/**
 * The statement has certainly changed nothing: the database refused it, and said so. After any
 * other failure it may have been committed.
 */
export function isRefused(error: unknown): boolean {
  const code = codeOf(error);
  // An administrator, or a crash, may end a connection after its commit.
  return isState(code) && !/^(08|57P)/.test(code);
}

export function isFullDisk(error: unknown): boolean {
  return codeOf(error) === '53100';
}

/** A row with this key is there already. */
export function isDuplicate(error: unknown): boolean {
  return codeOf(error) === '23505';
}

/** A row refers to another one that is not there. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === '23503';
}

/** The error for callers. The original stays in `cause`. It never has the address. */
export function asDatabaseError(error: unknown, name: string): Error {
  if (error instanceof SvcError) return error;
  const { message = String(error) } = error as Partial<Error>;
  const code = codeOf(error);
  const why = code === '' || message.includes(code) ? message : `${message} (${code})`;
  const options = { cause: error };
  if (isFullDisk(error)) return new SvcError('store_full', undefined, options);
  if (isAway(error))
    return new SvcError('store_stalled', `The database ${name} does not answer: ${why}.`, {
      ...options,
      details: { retry_after_ms: RETRY_AFTER_MS },
    });
  if (code === HOST_MISMATCH)
    return new SvcError(
      'store_failed',
      `The certificate of the database ${name} is for another host.`,
      {
        ...options,
        hint: 'Name in store the host of the certificate, or check the address with its owner.',
      },
    );
  if (UNTRUSTED.test(code))
    return new SvcError(
      'store_failed',
      `The certificate of the database ${name} is signed by no known authority, or has expired (${code}).`,
      { ...options, hint: 'Name the file of its authority in store: …?sslrootcert=/path/ca.pem' },
    );
  return new SvcError('store_failed', `The database ${name} refused: ${why}.`, {
    ...options,
    hint:
      (NO_TLS.test(message) ? HINTS.TLS : (HINTS[code] ?? HINTS[code.slice(0, 2)])) ??
      'See what is wrong with: svc doctor',
  });
}

const HOST_MISMATCH = 'ERR_TLS_CERT_ALTNAME_INVALID';
/** How TLS names a certificate that it does not trust. */
const UNTRUSTED = /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|INVALID_CA|PATH_LENGTH_EXCEEDED)/;

const NO_TLS = /does not support SSL/;

const HINTS: Readonly<Record<string, string>> = {
  TLS: 'Turn on ssl in the database. In a network that you trust: sslmode=disable',
  '28': 'Check the user in store, and its password: PGPASSWORD or store_password_file.',
  '3D': 'Create the database, or correct its name in store.',
  '42703':
    'An older svc made these tables. A daemon of this one adds what they lack: svc start. Then ' +
    'run the command again.',
  '42': 'Give the user of store all rights in its schema. See: svc doctor',
};

function isState(code: string): boolean {
  return /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code);
}
