import { attentionOf } from '../contract/attention.ts';
import { fixedLimits, type LimitName, type Limits, limitSpecs } from '../limits.ts';
import { type HistorySettings, historySpecs } from './history.ts';
import {
  chooseValue,
  readWritten,
  refuseUnknownVariables,
  type SettingSpec,
  type Source,
  type Written,
} from './layers.ts';
import { readModelChoices } from './models-file.ts';
import type { ModelPresets } from './presets.ts';
import { type ProviderConfig, readProvider } from './providers/provider.ts';
import { readAddedProviders } from './providers/providers-file.ts';
import { type RenamedSetting, removedVariables, renamedSettings } from './renamed.ts';
import { type Settings, settingSpecs } from './settings.ts';
import { splitPassword } from './store/address.ts';
import { plainValue } from './text.ts';
import { readWhole, wholeText } from './value.ts';

/**
 * The configuration: flag > environment > file > default. Each value has its source.
 * The file is JSON with comments. An unknown key is an error: it is mostly a typing mistake.
 */

export interface Config extends Settings {
  limits: Limits;
  history: HistorySettings;
  /** No prototype: a provider may have the name `constructor`. */
  providers: Record<string, ProviderConfig>;
  /** Default options of runs with an alias of `models.json`, by the alias. */
  alias_presets: ModelPresets;
  /** The source of each value, by its dotted key. */
  sources: Record<string, Source>;
  /** Settings that are given by their old name. */
  renamed: RenamedSetting[];
  /** Removed limits that are given all the same, by their names in the file or of the variable. */
  removed: string[];
  file: string;
  /** The password in the address of the store; null if it has none. */
  readonly storePassword?: string | null;
}

export interface ConfigOptions {
  env?: NodeJS.ProcessEnv;
  flags?: Partial<Record<keyof Settings, unknown>>;
}

/** Throws config_invalid, with line and column for a mistake in the file. */
export function loadConfig(
  file: string,
  { env = process.env, flags = {} }: ConfigOptions = {},
): Config {
  const written = readWritten(
    file,
    Object.keys(settingSpecs),
    Object.keys(limitSpecs),
    Object.keys(historySpecs),
  );
  const sources: Record<string, Source> = {};
  const choose = (key: string, spec: SettingSpec, flag?: unknown) => {
    const [value, source] = chooseValue(key, spec, { written, env, flag });
    sources[key] = source;
    return value;
  };
  const removed = removedVariables(env);
  refuseUnknownVariables(env, LIMIT_PREFIX, new Set([...LIMIT_VARIABLES, ...removed]));
  const settings = mapValues(settingSpecs, (spec, key) =>
    choose(key, spec, flags[key]),
  ) as unknown as Settings;
  attentionOf(settings);
  const alias_presets = applyChoices(file, settings, sources);
  const { address, password } = splitPassword(settings.store);
  settings.store = address;
  const set = mapValues(limitSpecs, (_, key) => choose(`limits.${key}`, limitSetting(key)));
  const limits = { ...fixedLimits, ...set } as Limits;
  const history = mapValues(historySpecs, (spec, key) =>
    choose(`history.${key}`, spec),
  ) as unknown as HistorySettings;
  const providers = readProviders(file, written, sources);
  const renamed = renamedSettings.filter(
    (setting) => written.renamed.includes(setting) || env[setting.env],
  );
  removed.push(...written.removed);
  const config = {
    ...settings,
    limits,
    history,
    providers,
    alias_presets,
    sources,
    renamed,
    removed,
    file,
  };
  // A copy and a text of the configuration do not have it.
  return Object.defineProperty(config, 'storePassword', { value: password }) as Config;
}

/**
 * Applies the choices of `svc model use`, `svc model alias` and `svc provider default` where
 * nothing else chooses. Returns the presets of the aliases that it has set.
 */
function applyChoices(
  file: string,
  settings: Settings,
  sources: Record<string, Source>,
): ModelPresets {
  const own = settings.aliases;
  const choices = readModelChoices(file);
  if (choices.default !== null && sources.model === 'default') {
    settings.model = choices.default;
    sources.model = 'models.json';
  }
  if (choices.provider !== null && sources.default_provider === 'default') {
    settings.default_provider = choices.provider;
    sources.default_provider = 'models.json';
  }
  if (Object.keys(choices.aliases).length > 0) {
    settings.aliases = { ...choices.aliases, ...settings.aliases };
    if (sources.aliases === 'default') sources.aliases = 'models.json';
  }
  const isSet = ([alias]: [string, unknown]) =>
    Object.hasOwn(choices.aliases, alias) && !Object.hasOwn(own, alias);
  return Object.fromEntries(Object.entries(choices.presets).filter(isSet));
}

const LIMIT_PREFIX = 'SVC_LIMIT_';

/** A limit as a setting. */
export function limitSetting(key: LimitName): SettingSpec<number> {
  const { value, min, max, reason } = limitSpecs[key];
  return {
    env: limitVariable(key),
    default: value,
    meaning: reason,
    expects: `a whole number from ${min} to ${max}`,
    read: (text) => readWhole(text, min, max),
    fromText: wholeText,
  };
}

function limitVariable(key: string): string {
  return LIMIT_PREFIX + key.toUpperCase();
}

const LIMIT_VARIABLES: ReadonlySet<string> = new Set([
  ...Object.keys(limitSpecs).map(limitVariable),
  ...renamedSettings.map(({ env }) => env),
]);

/** A name in both files has the settings of the user's file. */
function readProviders(
  file: string,
  written: Written,
  sources: Record<string, Source>,
): Record<string, ProviderConfig> {
  const providers: Record<string, ProviderConfig> = Object.create(null);
  const files = [
    ['providers.json', readAddedProviders(file)],
    ['file', written],
  ] as const;
  for (const [source, { providers: found, locate: where }] of files) {
    for (const { name: id, value, node } of found) {
      const place = (field: string) =>
        value.children?.find(({ children }) => children?.[0]?.value === field) ?? node;
      providers[id] = readProvider(id, plainValue(value), (field) => where(place(field).offset));
      sources[`providers.${id}`] = source;
    }
  }
  return providers;
}

function mapValues<K extends string, V, R>(
  record: Record<K, V>,
  map: (value: V, key: K) => R,
): Record<K, R> {
  return Object.fromEntries(
    Object.entries<V>(record).map(([key, value]) => [key, map(value, key as K)]),
  ) as Record<K, R>;
}
