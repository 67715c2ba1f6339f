import { loadConfig } from '../../config/config.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import type { Paths } from '../../home/paths.ts';
import type { Results } from '../../transport/control/protocol.ts';

/** A provider; without a daemon `since` is unknown. */
export type ProviderShown = Omit<Results['provider.test'], 'since'> & { since: string | null };

/** The providers of the configuration in the state `unknown`, the built-in engine first. */
export function configuredProviders(paths: Paths): ProviderShown[] {
  const { providers, default_provider } = loadConfig(paths.config);
  const engine = shown('local', {
    kind: 'local',
    adapter: 'llama.cpp',
    base_url: null,
    key: null,
  });
  const all = [engine, ...Object.entries(providers).map(([id, settings]) => shown(id, settings))];
  return all.map((provider) => ({ ...provider, default: provider.id === default_provider }));
}

type Settings = Pick<ProviderConfig, 'kind' | 'key'> & {
  adapter: string;
  base_url: string | null;
};

export function shown(id: string, { kind, adapter, base_url, key }: Settings): ProviderShown {
  return {
    id,
    kind,
    adapter,
    state: 'unknown',
    reason: 'The daemon is not running.',
    since: null,
    retry_at: null,
    transitions: [],
    base_url,
    credential: key ?? 'none',
    models: null,
    default: false,
  };
}
