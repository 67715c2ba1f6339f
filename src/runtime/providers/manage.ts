import type { Config } from '../../config/config.ts';
import type { ModelChoices } from '../../config/models-file.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import { addedProvider, changedProvider } from '../../config/provider-request.ts';
import { refuseConfigured } from '../../config/refuse-configured.ts';
import { SvcError } from '../../errors.ts';
import type { Runtime } from '../contract.ts';
import { providerSettings } from './change.ts';
import { LOCAL, type Providers } from './providers.ts';

export interface ManageOptions {
  config: Config;
  providers: Pick<Providers, 'ids' | 'config' | 'add' | 'replace' | 'remove' | 'record'>;
  /** Writes the provider to providers.json, or removes it (null). */
  saveProvider(id: string, config: ProviderConfig | null): Promise<void>;
  saveChoices(edit: (choices: ModelChoices) => ModelChoices): Promise<ModelChoices>;
  /** Changes of the configuration, one after the other. */
  changed<T>(change: () => Promise<T>): Promise<T>;
}

type Manage = Pick<Runtime, 'addProvider' | 'setProvider' | 'removeProvider' | 'useProvider'>;

/**
 * Requests that change providers. A change counts at once, and after the next start.
 *
 * 1. No request names a package to load. See `provider-request.ts`.
 * 2. What the user configures is not changed.
 * 3. A provider that is removed is no default any more.
 */
export function createManage(options: ManageOptions): Manage {
  const { config, providers, changed } = options;
  const choose = async (id: string | null) => {
    await options.saveChoices((choices) => ({ ...choices, provider: id }));
    config.default_provider = id ?? LOCAL;
    config.sources.default_provider = id === null ? 'default' : 'models.json';
  };
  return {
    addProvider: (input) =>
      changed(async () => {
        const { id } = input;
        const settings = addedProvider(id, providerSettings(input), 'provider add');
        if (providers.ids().includes(id))
          throw new SvcError('provider_exists', `A provider ${id} is configured already.`, {
            param: 'id',
            hint: `To change it: svc provider set ${id} --help`,
          });
        await options.saveProvider(id, settings);
        return providers.add(id, settings);
      }),
    setProvider: (input) =>
      changed(async () => {
        const { id } = input;
        const present = presentConfig(providers, id, 'has no settings of a provider');
        refuseConfigured(config, `providers.${id}`, `The provider ${id}`);
        const settings = changedProvider(id, present, providerSettings(input), 'provider set');
        await options.saveProvider(id, settings);
        return providers.replace(id, settings);
      }),
    removeProvider: (id) =>
      changed(async () => {
        presentConfig(providers, id, 'cannot be removed');
        await options.saveProvider(id, null);
        const isChosen = config.sources.default_provider === 'models.json';
        if (isChosen && config.default_provider === id) await choose(null);
        return providers.remove(id);
      }),
    useProvider: (id) =>
      changed(async () => {
        providers.record(id);
        refuseConfigured(config, 'default_provider', 'The default provider');
        await choose(id);
        return providers.record(id);
      }),
  };
}

/** Throws provider_unknown, and invalid_request for the built-in engine. */
function presentConfig(
  providers: ManageOptions['providers'],
  id: string,
  what: string,
): ProviderConfig {
  const present = providers.config(id);
  if (present === null)
    throw new SvcError('invalid_request', `The built-in engine ${what}.`, { param: 'id' });
  // Throws when there is none.
  providers.record(id);
  return present as ProviderConfig;
}
