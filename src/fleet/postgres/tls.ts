import { readFileSync } from 'node:fs';
import { type ConnectionOptions, getCACertificates } from 'node:tls';
import { SvcError } from '../../errors.ts';

export const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
type SslMode = (typeof SSL_MODES)[number];

/** What an address may say of TLS. The library would read these in its own way. */
const PARAMETERS = [
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'ssl',
  'uselibpqcompat',
] as const;

/**
 * How to encrypt the connections of an address, which is without its parameters of TLS afterwards.
 * The words mean what they mean to `psql`:
 *
 * 1. `require` encrypts. It checks the certificate only with a file of authorities.
 * 2. `verify-ca` checks who signed it, and `verify-full` also that it is for this host.
 * 3. A socket file is not encrypted. It does not leave the machine.
 *
 * Modes that encrypt only by chance are refused. Throws config_invalid.
 */
export function takeTls(url: URL, env: NodeJS.ProcessEnv): ConnectionOptions | false {
  const { sslmode, sslrootcert, sslcert, sslkey, ssl, uselibpqcompat } = given(url);
  if (ssl !== null || uselibpqcompat !== null)
    throw refused(`store has ${ssl === null ? 'uselibpqcompat' : 'ssl'}, which is not for svc`);
  const authorities = sslrootcert ?? env.PGSSLROOTCERT ?? null;
  const mode = modeOf(
    sslmode ?? env.PGSSLMODE ?? (authorities === null ? 'disable' : 'verify-full'),
  );
  if (mode === 'disable' || isSocketFile(url)) return false;
  const certificate = sslcert === null ? {} : { cert: read('sslcert', sslcert) };
  const key = sslkey === null ? {} : { key: read('sslkey', sslkey) };
  if (authorities === null) {
    if (mode === 'verify-ca')
      throw refused('sslmode=verify-ca needs the file of the authority: sslrootcert');
    return { ...certificate, ...key, rejectUnauthorized: mode !== 'require' };
  }
  return {
    ...certificate,
    ...key,
    ca: authorities === 'system' ? getCACertificates('system') : read('sslrootcert', authorities),
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
}

function given(url: URL): Record<(typeof PARAMETERS)[number], string | null> {
  const values = PARAMETERS.map((name) => [name, url.searchParams.get(name)]);
  for (const name of PARAMETERS) url.searchParams.delete(name);
  return Object.fromEntries(values);
}

function modeOf(text: string): SslMode {
  const mode = SSL_MODES.find((known) => known === text);
  if (mode !== undefined) return mode;
  const chance = ['allow', 'prefer'].includes(text) ? ' It may connect without encryption.' : '';
  throw refused(`sslmode=${text} is not for svc.${chance} Known are: ${SSL_MODES.join(', ')}`);
}

/** As the library sees it: the host is the path of a folder, in one of two places. */
function isSocketFile(url: URL): boolean {
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname);
  return host.startsWith('/');
}

function read(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code = 'unknown reason' } = error as NodeJS.ErrnoException;
    throw refused(`${name} of store, ${file}, cannot be read (${code})`, error);
  }
}

function refused(what: string, cause?: unknown): SvcError {
  return new SvcError('config_invalid', `${what}.`, {
    cause,
    hint: 'Correct store. See the part about TLS in docs/fleet.md.',
  });
}
