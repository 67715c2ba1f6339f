import type { ProviderConfig } from '../config/provider.ts';
import type { Limits } from '../limits.ts';
import { createSdkProvider } from './ai-sdk/provider.ts';
import type { ProviderKeys } from './keys/port.ts';
import { named } from './named.ts';
import { createRemoteProvider } from './openai/provider.ts';
import type { ProviderPort } from './port.ts';

export interface RemoteOptions {
  id: string;
  config: ProviderConfig;
  env: NodeJS.ProcessEnv;
  keys: ProviderKeys;
  limits: Limits;
  /** The folder of packages that the user installed. */
  adapters: string;
}

/** Creates the provider by its adapter. It loads and opens nothing before the first request. */
export function createRemote({ config, ...options }: RemoteOptions): ProviderPort {
  const { adapter, base_url } = config;
  if (adapter === 'openai-compatible' && base_url !== null)
    return named(createRemoteProvider({ ...options, config: { ...config, base_url } }));
  return named(createSdkProvider({ ...options, config }));
}
