import { loadConfig } from '../../config/config.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { Results } from '../../transport/control/protocol.ts';

/** A provider; without a daemon `since` is unknown. */
export type ProviderView = Omit<Results['provider.test'], 'since'> & { since: string | null };

/** The providers of the configuration in the state `unknown`, the built-in engine first. */
export function configuredProviders(paths: Paths): ProviderView[] {
  const { providers, default_provider } = loadConfig(paths.config);
  const engine = toProviderView('local', {
    kind: 'local',
    adapter: 'llama.cpp',
    base_url: null,
    key: null,
  });
  const all = [
    engine,
    ...Object.entries(providers).map(([id, settings]) => toProviderView(id, settings)),
  ];
  return all.map((provider) => ({ ...provider, default: provider.id === default_provider }));
}

/** Throws provider_unknown. `what` names the thing that the built-in engine lacks. */
export function configOf(
  id: string,
  providers: Readonly<Record<string, ProviderConfig>>,
  what: string,
): ProviderConfig {
  const config = Object.hasOwn(providers, id) ? providers[id] : undefined;
  if (config !== undefined) return config;
  if (id === 'local')
    throw new SvcError('provider_unknown', `The built-in engine ${what}.`, {
      param: 'provider',
      hint: 'See: svc provider list',
    });
  const known = ['local', ...Object.keys(providers)];
  throw new SvcError(
    'provider_unknown',
    `There is no provider ${JSON.stringify(id)}. Known: ${known.join(', ')}.`,
    { param: 'provider', details: { known }, hint: `To add it: svc provider add ${id}` },
  );
}

type Settings = Pick<ProviderConfig, 'kind' | 'key'> & { adapter: string; base_url: string | null };

export function toProviderView(
  id: string,
  { kind, adapter, base_url, key }: Settings,
): ProviderView {
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
    faulty_models: [],
    default: false,
  };
}
