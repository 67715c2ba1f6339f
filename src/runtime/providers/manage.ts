import type { Config } from '../../config/config.ts';
import type { ModelChoices } from '../../config/models-file.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import { applyProviderChange, readAddedProvider } from '../../config/providers/provider-request.ts';
import { refuseConfigured } from '../../config/refuse-configured.ts';
import type { ProviderInput, ProviderRecord } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { rejectWhenLate } from '../disk/refuse-when-stalled.ts';
import { type ChangeConfig, providerSettings } from './change.ts';
import { LOCAL, type Providers } from './providers.ts';

export interface ManageOptions {
  kernel: Kernel;
  config: Config;
  providers: Providers;
  /** Writes the provider to providers.json, or removes it (null). */
  saveProvider(id: string, config: ProviderConfig | null): Promise<void>;
  saveChoices(edit: (choices: ModelChoices) => ModelChoices): Promise<ModelChoices>;
  change: ChangeConfig;
}

/**
 * Requests about providers. A change takes effect at once, and stays after a restart.
 *
 * 1. No request names a package to load. See `provider-request.ts`.
 * 2. Providers of the user's configuration are not changed.
 * 3. A removed provider is no longer the default.
 */
export class ManagedProviders {
  private readonly options: ManageOptions;

  constructor(options: ManageOptions) {
    this.options = options;
  }

  list(): ProviderRecord[] {
    return this.options.providers.list();
  }

  async add(input: ProviderInput): Promise<ProviderRecord> {
    const { providers, change, saveProvider } = this.options;
    const { id } = input;
    return change(async () => {
      const settings = readAddedProvider(id, providerSettings(input), 'provider add');
      if (providers.ids().includes(id))
        throw new SvcError('provider_exists', `A provider ${id} is configured already.`, {
          param: 'id',
          hint: `To change it: svc provider set ${id} --help`,
        });
      await saveProvider(id, settings);
      return providers.add(id, settings);
    });
  }

  /** Changes the given settings. Requests in progress end with the old ones. */
  async set(input: ProviderInput): Promise<ProviderRecord> {
    const { config, providers, change, saveProvider } = this.options;
    const { id } = input;
    return change(async () => {
      const present = presentConfig(providers, id, 'has no settings of a provider');
      refuseConfigured(config, `providers.${id}`, `The provider ${id}`);
      const settings = applyProviderChange(id, present, providerSettings(input), 'provider set');
      await saveProvider(id, settings);
      return providers.replace(id, settings);
    });
  }

  async remove(id: string): Promise<ProviderRecord> {
    const { config, providers, change, saveProvider } = this.options;
    return change(async () => {
      presentConfig(providers, id, 'cannot be removed');
      await saveProvider(id, null);
      const isChosen = config.sources.default_provider === 'models.json';
      if (isChosen && config.default_provider === id) await this.choose(null);
      return providers.remove(id);
    });
  }

  /** Makes it the provider of runs that name no provider. */
  async use(id: string): Promise<ProviderRecord> {
    const { config, providers, change } = this.options;
    return change(async () => {
      providers.record(id);
      refuseConfigured(config, 'default_provider', 'The default provider');
      await this.choose(id);
      return providers.record(id);
    });
  }

  /** The stored key of the provider changed. */
  rereadKey(id: string): Promise<ProviderRecord> {
    const { kernel, providers } = this.options;
    return rejectWhenLate(kernel, () => providers.rereadKey(id));
  }

  /** Probes the provider and waits for the outcome. */
  test(id: string): Promise<ProviderRecord> {
    const { kernel, providers } = this.options;
    return rejectWhenLate(kernel, () => providers.probe(id));
  }

  private async choose(id: string | null): Promise<void> {
    const { config, saveChoices } = this.options;
    await saveChoices((choices) => ({ ...choices, provider: id }));
    config.default_provider = id ?? LOCAL;
    config.sources.default_provider = id === null ? 'default' : 'models.json';
  }
}

/** Throws provider_unknown, and invalid_request for the built-in engine. */
function presentConfig(providers: Providers, id: string, what: string): ProviderConfig {
  const present = providers.config(id);
  if (present === null)
    throw new SvcError('invalid_request', `The built-in engine ${what}.`, { param: 'id' });
  // Throws if there is no such provider.
  providers.record(id);
  return present as ProviderConfig;
}
