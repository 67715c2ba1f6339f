import { type Limits, limitSpecs } from '../limits.ts';
import { isLoopback, parseAddress } from './address.ts';
import { type HistorySettings, historySpecs } from './history.ts';
import {
  chooseValue,
  readWritten,
  refuseUnknownVariables,
  type SettingSpec,
  type Source,
  type Written,
} from './layers.ts';
import { type RenamedSetting, renamedSettings } from './renamed.ts';
import { brief, plainValue, refuse } from './text.ts';
import {
  nullText,
  readBaseUrl,
  readName,
  readOrigin,
  readSwitch,
  readWhole,
  switchText,
  wholeText,
} from './value.ts';

export type { SettingSpec, Source } from './layers.ts';

/**
 * The configuration: flag > environment > file > default, each value with where it came from.
 * The file is JSON with comments. A key that is not known is an error, since it is most often a typing mistake.
 */

export interface ProviderConfig {
  adapter: 'openai-compatible';
  kind: 'local' | 'cloud';
  /** Without a slash at its end. */
  base_url: string;
  /** Model used when a run names none. */
  model: string | null;
  /** Name of the environment variable that holds the key; the key itself is never stored. */
  key_env: string | null;
  /** Runs that it answers at one time; null: the limit provider_runs. */
  max_runs: number | null;
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface Settings {
  http: string;
  grpc: string;
  auth: boolean;
  allowed_origins: string[];
  log_level: LogLevel;
  default_provider: string;
  default_cloud_provider: string | null;
  /** The model of the local engine: `svc-mini`, a name in the models folder, or a path to a GGUF file. */
  model: string;
  /** What becomes of a run that is cut off, unless it says so itself. */
  recovery: (typeof RECOVERIES)[number];
  /** Threads of the local engine; null: measured when a model is first loaded. */
  engine_threads: number | null;
  /** The local engine computes runs together, not each by itself. */
  engine_batching: boolean;
}

export interface Config extends Settings {
  limits: Limits;
  history: HistorySettings;
  /** Without a prototype: `constructor` is a name that a provider may have. */
  providers: Record<string, ProviderConfig>;
  /** Where each value came from, by its dotted key. */
  sources: Record<string, Source>;
  /** Settings that are given by their old name. */
  renamed: RenamedSetting[];
  file: string;
}

export interface ConfigOptions {
  env?: NodeJS.ProcessEnv;
  flags?: Partial<Record<keyof Settings, unknown>>;
}

export const RECOVERIES = ['resume', 'restart', 'end'] as const;
export const PROVIDER_ID = /^[a-z][a-z0-9_-]{0,39}$/;
export const LOG_LEVELS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

const address = {
  expects: 'an address such as "127.0.0.1:4780"',
  read: (value: unknown) =>
    typeof value === 'string' && parseAddress(value) !== null ? value : undefined,
};
const name = { expects: 'a name', read: readName };

export const settingSpecs: { readonly [K in keyof Settings]: SettingSpec<Settings[K]> } = {
  http: {
    env: 'SVC_HTTP',
    default: '127.0.0.1:4780',
    meaning: 'Address of the HTTP and WebSocket listener; port 0 is any free one.',
    ...address,
  },
  grpc: {
    env: 'SVC_GRPC',
    default: '127.0.0.1:4781',
    meaning: 'Address of the gRPC listener; port 0 is any free one.',
    ...address,
  },
  auth: {
    env: 'SVC_AUTH',
    default: true,
    meaning: 'Whether HTTP asks for the token. Off is possible on loopback only.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  allowed_origins: {
    env: 'SVC_ALLOWED_ORIGINS',
    default: [],
    meaning: 'Web origins that may call the HTTP interface, besides its own.',
    expects: 'a list of origins such as "https://example.org"',
    read: (value) => {
      const origins = Array.isArray(value) ? value.map(readOrigin) : [undefined];
      return origins.every((origin) => origin !== undefined) ? origins : undefined;
    },
    fromText: (text) => text.split(',').flatMap((part) => part.trim() || []),
  },
  log_level: {
    env: 'SVC_LOG_LEVEL',
    default: 'info',
    meaning: 'Lowest level that is logged.',
    expects: `one of ${LOG_LEVELS.join(', ')}`,
    read: (value) => LOG_LEVELS.find((level) => level === value),
  },
  default_provider: {
    env: 'SVC_PROVIDER',
    default: 'local',
    meaning: 'Provider of a run that names none.',
    ...name,
  },
  default_cloud_provider: {
    env: 'SVC_CLOUD_PROVIDER',
    default: null,
    meaning: 'Provider of `svc run --cloud`; without it, the only cloud provider there is.',
    expects: 'a name or null',
    read: (value) => (value === null ? null : readName(value)),
    fromText: nullText,
  },
  model: {
    env: 'SVC_MODEL',
    default: 'svc-mini',
    meaning:
      'Model of the local engine: svc-mini, a name in the models folder, or a path to a GGUF file.',
    ...name,
  },
  recovery: {
    env: 'SVC_RECOVERY',
    default: 'resume',
    meaning:
      'What becomes of a run that was cut off by a crash or a stop: resume (it goes on where it stopped, or is asked again if nothing was delivered, or ends), restart (it is asked again), end.',
    expects: 'one of resume, restart, end',
    read: (value) => RECOVERIES.find((recovery) => recovery === value),
  },
  engine_threads: {
    env: 'SVC_ENGINE_THREADS',
    default: null,
    meaning: 'Threads of the local engine; null: measured when a model is first loaded.',
    expects: 'a whole number from 1 to 512, or null',
    read: (value) => (value === null ? null : readWhole(value, 1, 512)),
    fromText: (text) => nullText(wholeText(text)),
  },
  engine_batching: {
    env: 'SVC_ENGINE_BATCHING',
    default: false,
    meaning:
      'Whether the local engine computes the runs that it answers at one time together: faster with a large model, but then what else is being answered can change an answer, also one with a seed or one that goes on after a crash.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
};

/** Throws config_invalid, with line and column for a mistake in the file. */
export function loadConfig(
  file: string,
  { env = process.env, flags = {} }: ConfigOptions = {},
): Config {
  const written = readWritten(
    file,
    (setting) => Object.hasOwn(settingSpecs, setting),
    (limit) => Object.hasOwn(limitSpecs, limit),
    (name) => Object.hasOwn(historySpecs, name),
  );
  const sources: Record<string, Source> = {};
  const choose = (key: string, spec: SettingSpec, flag?: unknown) => {
    const [value, source] = chooseValue(key, spec, { written, env, flag });
    sources[key] = source;
    return value;
  };
  refuseUnknownVariables(env, LIMIT_PREFIX, LIMIT_VARIABLES);
  const settings = mapValues(settingSpecs, (spec, key) =>
    choose(key, spec, flags[key]),
  ) as unknown as Settings;
  const limits = mapValues(limitSpecs, (_, key) =>
    choose(`limits.${key}`, limitSetting(key)),
  ) as Limits;
  const history = mapValues(historySpecs, (spec, key) =>
    choose(`history.${key}`, spec),
  ) as unknown as HistorySettings;
  const providers = readProviders(written, sources);
  const renamed = renamedSettings.filter(
    (setting) => written.renamed.includes(setting) || env[setting.env],
  );
  return { ...settings, limits, history, providers, sources, renamed, file };
}

/**
 * Checks one provider's settings; also used for `svc provider add`. `where` begins the message: one place for all, or that of
 * each field. Throws `code`, with the field as its param.
 */
export function readProvider(
  id: string,
  value: unknown,
  where: string | ((field: string) => string),
  code: 'config_invalid' | 'invalid_request' = 'config_invalid',
): ProviderConfig {
  const fail = (field: string, what: string): never =>
    refuse(typeof where === 'string' ? where : where(field), `provider ${brief(id)}: ${what}`, {
      code,
      param: field,
    });
  if (id === 'local') fail('id', 'local is the built-in engine');
  if (!PROVIDER_ID.test(id))
    fail(
      'id',
      'an id is a lower-case letter, then letters, digits, - and _, 40 characters at most',
    );
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return fail('id', 'its settings must be an object');
  const unknown = Object.keys(value).find((field) => !PROVIDER_FIELDS.includes(field));
  if (unknown !== undefined)
    fail(unknown, `${brief(unknown)} is not a setting; there are ${PROVIDER_FIELDS.join(', ')}`);
  const given = value as Record<string, unknown>;
  const base_url = readBaseUrl(given.base_url, (what) => fail('base_url', what));
  const {
    adapter = 'openai-compatible',
    kind = isLoopback(new URL(base_url).hostname) ? 'local' : 'cloud',
    model = null,
    key_env = null,
    max_runs = null,
  } = given;
  if (adapter !== 'openai-compatible')
    return fail('adapter', 'adapter must be "openai-compatible"');
  if (kind !== 'local' && kind !== 'cloud') return fail('kind', 'kind must be "local" or "cloud"');
  const default_model =
    model === null ? null : (readName(model) ?? fail('model', 'model must be the name of a model'));
  if (key_env !== null && (typeof key_env !== 'string' || !VARIABLE.test(key_env)))
    return fail('key_env', 'key_env must name an environment variable; it is not the key');
  if (max_runs !== null && readWhole(max_runs, 1, limitSpecs.provider_runs.max) === undefined)
    return fail(
      'max_runs',
      `max_runs must be a whole number from 1 to ${limitSpecs.provider_runs.max}`,
    );
  return {
    adapter,
    kind,
    base_url,
    model: default_model,
    key_env,
    max_runs: max_runs as number | null,
  };
}

const PROVIDER_FIELDS = ['adapter', 'kind', 'base_url', 'model', 'key_env', 'max_runs'];
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const LIMIT_PREFIX = 'SVC_LIMIT_';

function limitSetting(key: keyof Limits): SettingSpec<number> {
  const { value, min, max, reason } = limitSpecs[key];
  return {
    env: limitVariable(key),
    default: value,
    meaning: reason,
    expects: `a whole number from ${min} to ${max}`,
    read: (given) => readWhole(given, min, max),
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

function readProviders(
  written: Written,
  sources: Record<string, Source>,
): Record<string, ProviderConfig> {
  const providers: Record<string, ProviderConfig> = Object.create(null);
  for (const { name: id, value, node } of written.providers) {
    const place = (field: string) =>
      value.children?.find(({ children }) => children?.[0]?.value === field) ?? node;
    providers[id] = readProvider(id, plainValue(value), (field) =>
      written.where(place(field).offset),
    );
    sources[`providers.${id}`] = 'file';
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
