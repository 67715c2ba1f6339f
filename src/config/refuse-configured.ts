import { SvcError } from '../errors.ts';
import type { Config } from './config.ts';

/** Throws if the user's file, a variable or a flag sets it: svc does not change those. */
export function refuseConfigured(
  { sources, file }: Pick<Config, 'sources' | 'file'>,
  key: string,
  what: string,
): void {
  const source = sources[key];
  if (source === undefined || OWN.has(source)) return;
  const place = source === 'file' ? `in ${file}` : `by the ${source}`;
  throw new SvcError('invalid_request', `${what} is set ${place}, which svc does not change.`, {
    param: key,
    hint:
      source === 'file' && !key.startsWith('providers.')
        ? `Change it with: svc config set ${key} <value>, or remove it: ` +
          `svc config set ${key} --remove`
        : `Change or remove \`${key}\` there, then run: svc restart`,
  });
}

/** The defaults, and the files that only svc writes. */
const OWN: ReadonlySet<string> = new Set(['default', 'models.json', 'providers.json']);
