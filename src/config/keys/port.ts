import type { ProviderConfig } from '../providers/provider.ts';

/** Where a stored key is: in the keychain, or in a private file of the home. */
export type KeyPlace = 'keychain' | 'file';

/** The settings that choose the key of a provider. */
export type KeyOwner = Pick<ProviderConfig, 'key' | 'base_url' | 'adapter' | 'options'>;

/** The key of a provider. */
export interface ProviderKeys {
  /**
   * Reads the key for one request, so a changed key counts at once. Null: none is configured.
   * Throws provider_unauthorised, which never shows the key.
   */
  read(config: KeyOwner): Promise<string | null>;
  /** Where a stored key is, as of the last read. Null: none is stored. */
  stored(): KeyPlace | null;
  /** Removes a stored key. */
  forget(): Promise<void>;
}

/** The storage of the login at one tool server. */
export interface LoginStore {
  /** Null: no login is stored. */
  read(): Promise<string | null>;
  write(text: string): Promise<unknown>;
  /** Resolves with whether there was one. */
  remove(): Promise<boolean>;
}
