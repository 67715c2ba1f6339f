import type { ProviderConfig } from '../../config/provider.ts';
import { SvcError } from '../../errors.ts';

/**
 * Reads the key for a request. Null: none is configured. Throws provider_unauthorised, which never
 * shows the key.
 */
export function readKey({ key_env }: ProviderConfig, env: NodeJS.ProcessEnv): string | null {
  if (key_env === null) return null;
  const key = env[key_env]?.trim() ?? '';
  if (key === '') throw unauthorised(`The environment variable ${key_env} for the key is not set.`);
  if (!/^[\x21-\x7e]+$/.test(key))
    throw unauthorised(
      `The environment variable ${key_env} has characters that are not valid in a key.`,
    );
  return key;
}

function unauthorised(message: string): SvcError {
  return new SvcError('provider_unauthorised', message, { retryable: false });
}
