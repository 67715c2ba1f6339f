import { dirname, join } from 'node:path';
import { SvcError } from '../../errors.ts';
import { type ConfigText, type Property, plainValue, properties, readConfigText } from '../text.ts';
import type { ProviderConfig } from './provider.ts';

/**
 * The providers that `svc provider add` adds: `providers.json`, beside the configuration file.
 *
 * 1. Only svc writes this file. The configuration file is the user's: the daemon never writes it.
 * 2. A name is in one of the two files. If a user writes it into both, the configuration file wins.
 * 3. The file is replaced at once, and two changes at the same time are both kept.
 */

export function providersFile(configFile: string): string {
  return join(dirname(configFile), 'providers.json');
}

/** The providers in the file, not checked yet; none without a file. Throws config_invalid. */
export function readAddedProviders(configFile: string): {
  providers: Property[];
  locate: ConfigText['locate'];
} {
  const file = providersFile(configFile);
  const text = readConfigText(file);
  return text?.root === undefined
    ? { providers: [], locate: () => file }
    : { providers: properties(text, text.root, 'providers.json'), locate: text.locate };
}

/** Adds a provider, or replaces it. Throws provider_exists, config_invalid, home_unusable, busy. */
export function saveProvider(
  configFile: string,
  id: string,
  config: ProviderConfig,
): Promise<void> {
  return change(configFile, (providers) => {
    const place = placeInConfig(configFile, id);
    if (place !== null)
      throw new SvcError(
        'provider_exists',
        `A provider ${id} is configured already, at ${place}.`,
        { param: 'id', hint: 'Restart svc to use it, or choose another name.' },
      );
    return { ...providers, [id]: toFileFields(config) };
  });
}

/**
 * Removes a provider; an unknown id is not an error. Throws invalid_request for one of the user's
 * file.
 */
export function removeProvider(configFile: string, id: string): Promise<void> {
  return change(configFile, (providers) => {
    const place = placeInConfig(configFile, id);
    if (place !== null)
      throw new SvcError(
        'invalid_request',
        `The provider ${id} is set in your configuration, at ${place}. ` +
          'svc does not edit that file.',
        { param: 'id', hint: 'Remove it there, then run: svc restart' },
      );
    const { [id]: _, ...rest } = providers;
    return rest;
  });
}

type Providers = Record<string, unknown>;

async function change(
  configFile: string,
  edit: (providers: Providers) => Providers,
): Promise<void> {
  // Not imported above: commands only read, and writing needs slow modules of Node.
  const { editOwnFile } = await import('../own-file.ts');
  await editOwnFile(providersFile(configFile), () => {
    const { providers } = readAddedProviders(configFile);
    const before = Object.fromEntries(
      providers.map(({ name, value }) => [name, plainValue(value)]),
    );
    const after = edit(before);
    return JSON.stringify(after) === JSON.stringify(before) ? null : after;
  });
}

/** Where the user's file sets the provider; null if it does not. */
function placeInConfig(configFile: string, id: string): string | null {
  const config = readConfigText(configFile);
  if (config?.root === undefined) return null;
  const group = properties(config, config.root, 'the configuration').find(
    ({ name }) => name === 'providers',
  );
  const found =
    group && properties(config, group.value, 'providers').find(({ name }) => name === id);
  return found === undefined ? null : config.locate(found.node.offset);
}

/** The form in which a later start reads the same settings. */
function toFileFields(config: ProviderConfig): Providers {
  const hasRow = config.like !== null;
  return Object.fromEntries(
    Object.entries(config).filter(([field, value]) => {
      if (value === null) return hasRow && (field === 'key' || field === 'model');
      if (field === 'stream') return value === false;
      return typeof value !== 'object' || Object.keys(value).length > 0;
    }),
  );
}
