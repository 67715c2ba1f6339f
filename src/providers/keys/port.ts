import type { ProviderConfig } from '../../config/provider.ts';

/** The keys of providers, by their references. */
export interface ProviderKeys {
  /**
   * Reads the key for one request, so a changed key counts at once. Null: none is configured.
   * Throws provider_unauthorised, which never shows the key.
   */
  read(config: Pick<ProviderConfig, 'key'>): Promise<string | null>;
}
