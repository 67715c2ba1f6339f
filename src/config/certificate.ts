import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { createSecureContext } from 'node:tls';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { CERTIFICATE_BYTES_MAX } from '../limits.ts';
import type { Settings } from './settings.ts';

/** The certificate of the listeners, with its key, as the files have them. */
export interface Certificate {
  /** The certificate first, then those that lead to its authority. */
  cert: Buffer;
  key: Buffer;
  x509: X509Certificate;
}

export type CertificateFiles = Pick<Settings, 'tls_cert' | 'tls_key'>;

/** Null without one. Throws config_invalid for half a pair, and certificate_invalid. */
export function readCertificate({ tls_cert, tls_key }: CertificateFiles): Certificate | null {
  if (tls_cert === null && tls_key === null) return null;
  if (tls_cert === null || tls_key === null) {
    const [there, missing] = tls_cert === null ? ['tls_key', 'tls_cert'] : ['tls_cert', 'tls_key'];
    throw new SvcError('config_invalid', `${there} is set without ${missing}.`, {
      param: missing,
      hint: 'Set both for TLS, or none of them.',
    });
  }
  const [cert, key] = [read(tls_cert, 'tls_cert'), read(tls_key, 'tls_key')];
  const x509 = parse(cert, tls_cert);
  if (!x509.checkPrivateKey(parseKey(key, tls_key)))
    fail('tls_key', `The key ${tls_key} does not belong to the certificate ${tls_cert}.`);
  refuseOutdated(x509, tls_cert);
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    fail('tls_cert', `${tls_cert} cannot be served: ${reasonOf(cause)}.`, cause);
  }
  return { cert, key, x509 };
}

/** True if the certificate is for this name or address. */
export function isNameOf({ x509 }: Certificate, host: string): boolean {
  if (isIP(host) !== 0) return x509.checkIP(host) !== undefined;
  return NAME.test(host) && x509.checkHost(host) !== undefined;
}

/** Node.js throws at other texts. */
const NAME = /^[\w.:-]+$/;

/** A pipe would block the read, and a large file fill the memory. */
function read(file: string, param: string): Buffer {
  try {
    const info = statSync(file);
    if (!info.isFile()) fail(param, `${file} is not a file.`);
    if (info.size > CERTIFICATE_BYTES_MAX)
      fail(param, `${file} has more than ${CERTIFICATE_BYTES_MAX} bytes.`);
    return readFileSync(file);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    fail(param, `${file} cannot be read: ${whyUnusable(cause)}.`, cause);
  }
}

function parse(cert: Buffer, file: string): X509Certificate {
  try {
    return new X509Certificate(cert);
  } catch (cause) {
    fail('tls_cert', `${file} has no certificate in PEM form.`, cause);
  }
}

function parseKey(key: Buffer, file: string): KeyObject {
  try {
    return createPrivateKey(key);
  } catch (cause) {
    const why = key.includes('ENCRYPTED')
      ? 'is encrypted; svc needs a key without a passphrase'
      : 'has no private key in PEM form';
    fail('tls_key', `${file} ${why}.`, cause);
  }
}

function refuseOutdated({ validFromDate, validToDate }: X509Certificate, file: string): void {
  if (validToDate.getTime() <= Date.now())
    fail('tls_cert', `The certificate ${file} expired at ${validToDate.toISOString()}.`);
  if (validFromDate.getTime() > Date.now())
    fail('tls_cert', `The certificate ${file} is not valid before ${validFromDate.toISOString()}.`);
}

/** OpenSSL's own words, such as `ee key too small`. */
function reasonOf(thrown: unknown): string {
  const { reason, message } = thrown as { reason?: string; message?: string };
  return reason ?? message ?? 'unknown reason';
}

function fail(param: string, message: string, cause?: unknown): never {
  throw new SvcError('certificate_invalid', message, { param, cause });
}
