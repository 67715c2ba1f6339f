import type { ProviderConfig } from '../../config/provider.ts';
import { SvcError } from '../../errors.ts';
import type { ProviderKeys } from '../../providers/keys/port.ts';

/** Why the key of a provider cannot be read. Null: it can, or there is none. */
export async function keyFault(
  keys: ProviderKeys,
  config: ProviderConfig,
): Promise<SvcError | null> {
  try {
    await keys.read(config);
    return null;
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    throw thrown;
  }
}
