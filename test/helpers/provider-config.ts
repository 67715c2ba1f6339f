import type { ProviderConfig } from '../../src/config/providers/provider.ts';

/** Complete settings of a provider, with the given ones. */
export function providerConfig(given: Partial<ProviderConfig> = {}): ProviderConfig {
  return {
    like: null,
    adapter: 'openai-compatible',
    kind: 'local',
    base_url: 'http://x',
    model: 'm',
    key: null,
    headers: {},
    options: {},
    stream: true,
    max_runs: null,
    command: null,
    memory_bytes: null,
    ...given,
  };
}
