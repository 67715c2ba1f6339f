import type { ProviderKeys } from '../../config/keys/port.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { Secrets } from './upstream-error.ts';

/** The texts that no message may show. Throws provider_unauthorised if the key cannot be read. */
export async function readSecrets(
  { config, keys }: { config: ProviderConfig; keys: ProviderKeys },
  texts: Secrets['texts'] = [],
): Promise<Secrets> {
  const key = await keys.read(config);
  return { key, place: keys.stored() === null ? config.key : STORED_KEY, texts };
}

/** The place of a key that `svc provider key` stored. */
export const STORED_KEY = 'stored';
