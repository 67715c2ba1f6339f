import type { LanguageModelV4, SharedV4ProviderOptions } from '@ai-sdk/provider';
import type { RunRequest } from '../../../machines/messages.ts';
import { adapterSpec, packageOf } from '../../config/adapters.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import { SvcError } from '../../errors.ts';
import { nameInPath } from '../remote/asked-model.ts';
import type { Asked, EventAnswer } from '../remote/event-answer.ts';
import type { ListCall } from '../remote/list-models.ts';
import { type Family, families, type SdkProvider } from './families.ts';
import type { SdkFetch } from './fetch.ts';
import { loadPackage, type Module } from './load.ts';

/** A package of the AI SDK with the settings of one provider. */
export interface Adapter {
  /** The package is not one that svc is tested with. */
  isForeign: boolean;
  canEmbed: boolean;
  hasSingleCalls: boolean;
  continues: boolean;
  listCall: ListCall | null;
  /** Reads the stream of an answer. Null: the package does. */
  reads: ((asked: Asked) => EventAnswer) | null;
  load(): Promise<Module>;
  /** What the factory gets instead of a key. Throws provider_unauthorised if there is nothing. */
  credentials(): Promise<object>;
  provider(key: string | null, fetch: SdkFetch['fetch']): Promise<SdkProvider>;
  /** The name as it is asked. Throws model_unknown for one that would lead elsewhere. */
  named(model: string): string;
  model(provider: SdkProvider, id: string): LanguageModelV4;
  requestOptions(request: RunRequest): SharedV4ProviderOptions;
  dimensions(count: number): SharedV4ProviderOptions;
}

export function makeAdapter(config: ProviderConfig, folder: string): Adapter {
  const { adapter, base_url } = config;
  const foreign = packageOf(adapter);
  const name = foreign ?? adapterSpec(adapter)?.package ?? adapter;
  const family = foreign === null ? familyOf(adapter) : foreignFamily(config);
  const list = base_url === null ? undefined : family.list?.(base_url, config);
  const headers = { ...config.headers, ...family.headers?.(config) };
  const load = () => loadPackage(name, folder);
  const credentials = async () => (await family.credentials?.(config.options)) ?? {};
  return {
    isForeign: foreign !== null,
    canEmbed: family.dimensions !== undefined || foreign !== null,
    hasSingleCalls: family.singleCalls === true,
    reads: config.stream ? (family.reads?.(config) ?? null) : null,
    continues: family.continues === true,
    listCall:
      list === undefined
        ? null
        : { ...list, headers: (key) => withHeaders(list.headers(key), headers) },
    load,
    credentials,
    provider: async (key, fetch) => {
      const factory = factoryOf(await load(), name, family.factory);
      return factory({
        ...family.settings?.(config),
        ...(base_url === null ? {} : { baseURL: base_url }),
        ...keySetting(config, key, foreign !== null),
        ...(key === null ? await credentials() : {}),
        headers,
        fetch,
      });
    },
    named: family.inPath === true ? nameInPath : (model) => model,
    model: (provider, id) =>
      checked(family.model?.(provider, id, config) ?? make(provider, id), name),
    requestOptions: (request) => family.request?.(request) ?? {},
    dimensions: (count) => {
      if (family.dimensions !== undefined) return family.dimensions(count);
      throw new SvcError('capability_missing', 'The provider cannot be asked for dimensions.', {
        param: 'dimensions',
      });
    },
  };
}

function familyOf(adapter: string): Family {
  if (Object.hasOwn(families, adapter)) return families[adapter as keyof typeof families];
  throw new SvcError('config_invalid', `The adapter ${adapter} is not known.`);
}

/** A package that the user names gets all options. */
function foreignFamily({ options: { factory = '' } }: ProviderConfig): Family {
  return {
    factory,
    inPath: true,
    settings: ({ options: { factory: _, ...settings } }) => settings,
  };
}

/**
 * Without a key the packages would read variables of their own, which are keys of other providers.
 * Two exceptions: the credentials of AWS are several variables, and a package that the user names
 * may have its own way.
 */
function keySetting({ adapter }: ProviderConfig, key: string | null, isForeign: boolean): object {
  const isOwn = adapter === 'bedrock' || isForeign;
  return key === null && isOwn ? {} : { apiKey: key ?? '' };
}

function withHeaders(headers: Headers, more: Record<string, string>): Headers {
  const all = new Headers(more);
  headers.forEach((value, name) => {
    all.set(name, value);
  });
  return all;
}

type Factory = (settings: object) => SdkProvider;

/** The function that makes the provider: by its name, or the only one that begins with `create`. */
function factoryOf(module: Module, name: string, factory: string): Factory {
  const made = Object.entries(module).filter(
    ([key, value]) => /^create[A-Z]/.test(key) && typeof value === 'function',
  );
  const only = new Set(made.map(([, value]) => value)).size === 1 ? made[0]?.[1] : undefined;
  const found = factory === '' ? only : module[factory];
  if (typeof found === 'function') return found as Factory;
  const known = made.map(([key]) => key).join(', ') || 'none';
  throw unusable(
    `The package ${name} has no single function that makes a provider; it has ${known}. ` +
      'The option factory names one.',
  );
}

function make(provider: SdkProvider, id: string): LanguageModelV4 {
  return typeof provider.languageModel === 'function'
    ? provider.languageModel(id)
    : (provider as unknown as (id: string) => LanguageModelV4)(id);
}

function checked(model: LanguageModelV4, name: string): LanguageModelV4 {
  const { specificationVersion: version } = model as { specificationVersion?: unknown };
  if (version === 'v4') return model;
  throw unusable(
    `The package ${name} has version ${String(version).slice(0, 10)} of the interface; ` +
      'svc takes v4.',
  );
}

function unusable(message: string): SvcError {
  return new SvcError('provider_adapter_missing', message);
}
