import { stat } from 'node:fs/promises';
import {
  type Certificate,
  type CertificateFiles,
  isNameOf,
  readCertificate,
} from '../config/certificate.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';

/**
 * The TLS certificate that the listeners present. It owns the present one.
 *
 * 1. The files are looked at from time to time, and read when they have changed. A renewal needs no
 *    restart.
 * 2. Files that cannot be used change nothing: the former certificate stays, and the log says why.
 *    So a pair may be replaced one file after the other.
 * 3. Open connections keep the certificate that they began with.
 */
export class ServedCertificate {
  private readonly files: CertificateFiles;
  private readonly log: Log;
  private present: Certificate;
  private seen = '';
  private readonly listeners: ((certificate: Certificate) => void)[] = [];
  private readonly timer: NodeJS.Timeout;

  /** Null without one. Throws config_invalid, certificate_invalid. */
  static open(
    files: CertificateFiles,
    limits: Pick<Limits, 'certificate_look_ms'>,
    log: Log,
  ): ServedCertificate | null {
    const first = readCertificate(files);
    return first === null ? null : new ServedCertificate(files, first, limits, log);
  }

  private constructor(
    files: CertificateFiles,
    first: Certificate,
    { certificate_look_ms }: Pick<Limits, 'certificate_look_ms'>,
    log: Log,
  ) {
    this.files = files;
    this.present = first;
    this.log = log;
    this.timer = setInterval(() => void this.look(), certificate_look_ms).unref();
    void this.look();
  }

  /** What a TLS server needs. */
  get pair(): { cert: Buffer; key: Buffer } {
    const { cert, key } = this.present;
    return { cert, key };
  }

  /** True if the certificate is for this name or address. */
  isFor(host: string): boolean {
    return isNameOf(this.present, host);
  }

  onChange(listener: (pair: { cert: Buffer; key: Buffer }) => void): void {
    this.listeners.push(listener);
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const { tls_cert, tls_key } = this.files;
    const found = (await Promise.all([stamp(tls_cert), stamp(tls_key)])).join(' ');
    if (found === this.seen) return;
    this.seen = found;
    try {
      const fresh = readCertificate(this.files);
      if (fresh === null || isSame(fresh, this.present)) return;
      for (const listener of this.listeners) listener(fresh);
      this.present = fresh;
      this.log.info({ valid_to: fresh.x509.validToDate }, 'the TLS certificate was read again');
    } catch (error) {
      this.log.warn({ err: error }, 'the changed TLS certificate cannot be used: the former stays');
    }
  }
}

/** Changes with the file, also when a link leads to another one. */
async function stamp(file: string | null): Promise<string> {
  const info = await stat(file ?? '').catch(() => null);
  return info === null ? 'none' : `${info.dev}:${info.ino}:${info.size}:${info.mtimeMs}`;
}

function isSame(one: Certificate, other: Certificate): boolean {
  return one.cert.equals(other.cert) && one.key.equals(other.key);
}
