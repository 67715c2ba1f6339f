import { stat } from 'node:fs/promises';
import { type Certificate, readCertificate } from '../../../config/certificate.ts';
import { asSvcError } from '../../../errors.ts';
import { platform } from '../../../home/platform.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';

/** Whether the listeners could serve the configured certificate, and for how long. */
export async function checkCertificate({ config }: DoctorContext): Promise<Check[]> {
  if (config === null) return [];
  let certificate: Certificate | null;
  try {
    certificate = readCertificate(config);
  } catch (thrown) {
    const { message, hint } = asSvcError(thrown);
    return [fail('certificate', message, hint)];
  }
  if (certificate === null) return [];
  return [describe(certificate), ...(await checkKey(config.tls_key ?? ''))];
}

function describe({ x509: { subject, subjectAltName, validToDate } }: Certificate): Check {
  const days = Math.floor((validToDate.getTime() - Date.now()) / DAY_MS);
  const names = subjectAltName ?? subject ?? 'no name';
  const until = validToDate.toISOString().slice(0, 10);
  const detail = `for ${names}, until ${until} (${days} days left)`;
  return days < DAYS_LOW
    ? warn('certificate', detail, 'Renew it. The daemon reads the new files by itself.')
    : ok('certificate', detail);
}

/** A group may have the key, as some systems share it among servers. */
async function checkKey(file: string): Promise<Check[]> {
  const mode = (await stat(file)).mode & 0o777;
  if ((mode & platform.others & 0o007) === 0) return [];
  return [
    fail(
      'certificate',
      `Other users can read the private key ${file} (mode ${mode.toString(8).padStart(4, '0')}).`,
      `Run: chmod 600 ${file}, and replace the pair: the key may be known.`,
    ),
  ];
}

const DAY_MS = 86_400_000;
/** Authorities with short lifetimes renew at about this time. */
const DAYS_LOW = 14;
