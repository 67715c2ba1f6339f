import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { LanguageModelV4, SharedV4ProviderOptions } from '@ai-sdk/provider';
import { adapterSpec, packageOf } from '../../config/providers/adapters.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import { asRecord, parseForeignJson } from '../../json.ts';
import type { Returns } from '../remote/call-options.ts';
import type { EventAnswer, EventAnswerContext } from '../remote/event-answer.ts';
import type { ListCall } from '../remote/list-models.ts';
import { nameInPath } from '../remote/model-name.ts';
import { type FilePlace, NO_FILES } from '../remote/result-files.ts';
import { type Family, families, type SdkProvider } from './families.ts';
import type { SdkFetch } from './fetch.ts';

/** A package of the AI SDK with the settings of one provider. */
export interface Adapter {
  /** svc is not tested with this package. */
  isForeign: boolean;
  canEmbed: boolean;
  hasSingleCalls: boolean;
  hears: boolean;
  files: FilePlace;
  continues: boolean;
  listCall: ListCall | null;
  returns: Returns | null;
  fits: Family['fits'];
  /** Reads the stream of an answer. Null: the package does. */
  reads: ((context: EventAnswerContext) => EventAnswer) | null;
  load(): Promise<Module>;
  /**
   * The credentials that the factory gets instead of a key. Throws provider_unauthorised if there
   * is nothing.
   */
  credentials(): Promise<object>;
  provider(key: string | null, fetch: SdkFetch['fetch']): Promise<SdkProvider>;
  /** The name as it is sent. Throws model_unknown for a name that would change the address. */
  nameForRequest(model: string): string;
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
    hears: family.hears === true || foreign !== null,
    files: foreign === null ? (family.files?.(config) ?? NO_FILES) : { form: 'after' },
    hasSingleCalls: family.singleCalls === true,
    reads: config.stream ? (family.createReader?.(config) ?? null) : null,
    continues: family.continues === true,
    returns: family.returns ?? null,
    fits: family.fits,
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
    nameForRequest: family.inPath === true ? nameInPath : (model) => model,
    model: (provider, id) =>
      checkModel(family.model?.(provider, id, config) ?? make(provider, id), name),
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

function checkModel(model: LanguageModelV4, name: string): LanguageModelV4 {
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

type Module = Record<string, unknown>;

/**
 * Loads a package: of svc itself, or that the user installed in the folder of adapters. Throws
 * provider_adapter_missing, with the command that installs it.
 */
async function loadPackage(name: string, folder: string): Promise<Module> {
  const own = await tryImport(name, name);
  if (own !== null) return own;
  const entry = entryOf(join(folder, 'node_modules', name));
  const installedModule = entry === null ? null : await tryImport(entry, name);
  if (installedModule !== null) return installedModule;
  const version = versionOf(name);
  throw new SvcError(
    'provider_adapter_missing',
    `The adapter needs the package ${name}, which is not installed.`,
    { hint: `Install it with: npm install --prefix "${folder}" ${name}${version}` },
  );
}

async function tryImport(specifier: string, name: string): Promise<Module | null> {
  try {
    return (await import(specifier)) as Module;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`)) return null;
    const why = code === undefined ? '' : ` (${code})`;
    throw new SvcError(
      'provider_adapter_missing',
      `The package ${name} is installed, but cannot be loaded${why}.`,
      { cause },
    );
  }
}

/** The address of the main file of a package. Null: it is not there. */
function entryOf(folder: string): string | null {
  const { exports, module, main } = manifest(join(folder, 'package.json'));
  const root = asRecord(exports)['.'] ?? exports;
  const file = fileForConditions(root) ?? module ?? main ?? 'index.js';
  if (typeof file !== 'string' || manifest(join(folder, 'package.json')).name === undefined)
    return null;
  return pathToFileURL(join(folder, file)).href;
}

/** The file of the conditions that Node has for an import. */
function fileForConditions(entry: unknown): string | null {
  if (typeof entry === 'string') return entry;
  const conditions = asRecord(entry);
  for (const name of ['node', 'import', 'default']) {
    const file = name in conditions ? fileForConditions(conditions[name]) : null;
    if (file !== null) return file;
  }
  return null;
}

/** svc is tested with this version of the package. */
function versionOf(name: string): string {
  const { dependencies } = manifest(join(packageRoot(), 'package.json'));
  const version = asRecord(dependencies)[name];
  return typeof version === 'string' ? `@${version}` : '';
}

function manifest(file: string): Record<string, unknown> {
  try {
    return asRecord(parseForeignJson(readFileSync(file, 'utf8')));
  } catch {
    return {};
  }
}
