import { isAbsolute } from 'node:path';
import { type Attention, CACHE_TYPES } from '../contract/attention.ts';
import type { Price } from '../contract/events.ts';
import { LOG_LEVELS, RECOVERIES } from '../contract/words.ts';
import { parseAddress } from './address.ts';
import type { SettingSpec } from './layers.ts';
import { type Presets, presetProblem, readPresets } from './presets.ts';
import { maskPassword, readStoreAddress, SQLITE } from './store/address.ts';
import {
  jsonText,
  listOf,
  listText,
  nullText,
  readAdapters,
  readAliases,
  readDurations,
  readHost,
  readName,
  readNames,
  readOrigin,
  readPrices,
  readSwitch,
  readTemplates,
  readWhole,
  switchText,
  TEMPLATE_FORMS,
  wholeText,
} from './value.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface Settings {
  http: string;
  grpc: string;
  /** `sqlite`, or the address of a PostgreSQL database. It never has the password. */
  store: string;
  store_password_file: string | null;
  /** The certificate of both listeners, and its key; null: no TLS. */
  tls_cert: string | null;
  tls_key: string | null;
  auth: boolean;
  allowed_origins: string[];
  /** Names besides those of this machine under which a request may come. */
  allowed_hosts: string[];
  /** A field that svc does not know is an error in the APIs of OpenAI and Anthropic, too. */
  strict_requests: boolean;
  /** Clients of this machine may read `/metrics` without the token. */
  metrics_public: boolean;
  /** Base address of the collector of traces; null: none. */
  otlp_endpoint: string | null;
  log_level: LogLevel;
  default_provider: string;
  default_cloud_provider: string | null;
  /**
   * The model of the local engine: `svc-mini`, a name in the models folder, or a path to a GGUF
   * file.
   */
  model: string;
  /** Folders with model files of other programs; null: the usual ones. */
  model_folders: string[] | null;
  /** Model files of other programs are listed and used. */
  other_models: boolean;
  /** Chat templates of local models, by name or alias: a form of `TEMPLATE_FORMS`, or a path. */
  model_templates: Readonly<Record<string, string>>;
  /** LoRA adapters of local models, by name or alias. */
  model_adapters: Readonly<Record<string, readonly string[]>>;
  /** Draft models of local models: names by name or alias. */
  model_drafts: Readonly<Record<string, string>>;
  /** Other names of models, such as `gpt-4o`: each means the model, or the targets, it leads to. */
  aliases: Readonly<Record<string, string | readonly string[]>>;
  /** Requests by name, for `svc run --preset`. */
  presets: Presets;
  /** Prices by `provider/model` or `provider/*`, for a million tokens. */
  prices: Readonly<Record<string, Price>>;
  /** The name of the currency of prices and budget. */
  currency: string;
  /** Cost of runs at cloud providers on one day (UTC); null: no limit. */
  budget_per_day: number | null;
  /** Input and output tokens of runs at cloud providers on one day (UTC); null: no limit. */
  budget_tokens_per_day: number | null;
  /** The default for runs that are cut off. */
  recovery: (typeof RECOVERIES)[number];
  ask_again: boolean;
  /** The program that reads images for local models; null: the installed one. */
  llama_server: string | null;
  /** Threads of the local engine; null: measured when a model is first loaded. */
  engine_threads: number | null;
  /** Memory of all local models together, in bytes; null: three quarters of the memory. */
  models_memory_bytes: number | null;
  /** How long models stay in memory without work, in milliseconds, by name. */
  keep_alive: Record<string, number>;
  /** The local engine computes runs in one batch, instead of one by one. */
  engine_batching: 'auto' | boolean;
  engine_preload: boolean;
  /** Layers of a local model on a GPU. */
  engine_gpu_layers: 'auto' | 'max' | number;
  /** Types of the cached keys and values of a context. */
  engine_cache_keys: Attention['cache_keys'];
  engine_cache_values: Attention['cache_values'];
  engine_flash_attention: Attention['flash'];
}

const address = {
  expects: 'an address such as "127.0.0.1:4780"',
  read: (value: unknown) =>
    typeof value === 'string' && parseAddress(value) !== null ? value : undefined,
};
const name = { expects: 'a name', read: readName };
const file = {
  expects: 'an absolute path, or null',
  read: (value: unknown) =>
    value === null || (typeof value === 'string' && isAbsolute(value)) ? value : undefined,
  fromText: nullText,
};

function isPath(value: unknown): boolean {
  return typeof value === 'string' && isAbsolute(value);
}

function isHttpAddress(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}

/** An address may have a password, or a key after the `?`. */
function withoutSecrets(address: string): string {
  const { origin, pathname, username, password, search, hash } = new URL(address);
  const isWhole = username + password + search + hash === '';
  return isWhole ? address : `${origin}${pathname} (the rest is not shown)`;
}

const autoSwitch = {
  expects: 'auto, true or false',
  read: (value: unknown) => (value === 'auto' ? value : readSwitch(value)),
  fromText: (text: string) => (text === 'auto' ? text : switchText(text)),
};
const cacheType = {
  expects: `one of ${CACHE_TYPES.join(', ')}`,
  read: (value: unknown) => CACHE_TYPES.find((type) => type === value),
};

export const settingSpecs: { readonly [K in keyof Settings]: SettingSpec<Settings[K]> } = {
  http: {
    env: 'SVC_HTTP',
    default: '127.0.0.1:4780',
    meaning:
      'Address of the HTTP and WebSocket listener; port 0 is any free one. ' +
      'The default gives way where it is taken.',
    ...address,
  },
  grpc: {
    env: 'SVC_GRPC',
    default: '127.0.0.1:4781',
    meaning:
      'Address of the gRPC listener; port 0 is any free one. ' +
      'The default gives way where it is taken.',
    ...address,
  },
  store: {
    env: 'SVC_STORE',
    default: SQLITE,
    meaning:
      'Where the event log is: sqlite, a file in the home; ' +
      'or the address of a PostgreSQL database, which several daemons share. ' +
      'The password comes from PGPASSWORD, or from store_password_file.',
    expects: 'sqlite, or an address such as "postgres://svc@db.example.org/svc"',
    read: readStoreAddress,
    mask: maskPassword,
  },
  store_password_file: {
    env: 'SVC_STORE_PASSWORD_FILE',
    default: null,
    meaning: 'File with the password of that database. Only its owner may read it.',
    ...file,
  },
  tls_cert: {
    env: 'SVC_TLS_CERT',
    default: null,
    meaning:
      'PEM file with the certificate of both listeners, and those that lead to its ' +
      'authority. With tls_key it turns TLS on.',
    ...file,
  },
  tls_key: {
    env: 'SVC_TLS_KEY',
    default: null,
    meaning: 'PEM file with the private key of that certificate, without a passphrase.',
    ...file,
  },
  auth: {
    env: 'SVC_AUTH',
    default: true,
    meaning: 'Whether clients need a token. Off is possible on loopback only.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  allowed_origins: {
    env: 'SVC_ALLOWED_ORIGINS',
    default: [],
    meaning:
      'Web origins that may call the HTTP interface. ' +
      'Pages of this machine and apps with a token need no entry.',
    expects: 'a list of origins such as "https://example.org"',
    read: listOf(readOrigin),
    fromText: listText,
  },
  allowed_hosts: {
    env: 'SVC_ALLOWED_HOSTS',
    default: [],
    meaning:
      'Other names of this machine that a browser, or a client without a token, may use as Host. ' +
      'A program with a token needs no entry.',
    expects: 'a list of names such as "svc.example", "nas:8080" or "*.example"',
    read: listOf(readHost),
    fromText: listText,
  },
  strict_requests: {
    live: 'daemon',
    env: 'SVC_STRICT_REQUESTS',
    default: false,
    meaning:
      'Whether requests of the APIs of OpenAI and Anthropic are refused for a field that svc ' +
      'does not know. Without it such a field is left out, and the header X-Svc-Ignored names it.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  metrics_public: {
    live: 'daemon',
    env: 'SVC_METRICS_PUBLIC',
    default: false,
    meaning: 'Whether clients of this machine may read /metrics without the token.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  otlp_endpoint: {
    env: 'SVC_OTLP_ENDPOINT',
    default: null,
    meaning:
      'Base address of an OTLP collector for traces. Without it OTEL_EXPORTER_OTLP_ENDPOINT ' +
      'counts, and without both nothing is sent.',
    expects: 'an address such as "http://127.0.0.1:4318", or null',
    read: (value) =>
      value === null || (typeof value === 'string' && isHttpAddress(value)) ? value : undefined,
    fromText: nullText,
    toShown: (value) => (value === null ? null : withoutSecrets(value)),
  },
  log_level: {
    live: 'daemon',
    env: 'SVC_LOG_LEVEL',
    default: 'info',
    meaning: 'Lowest level that is logged.',
    expects: `one of ${LOG_LEVELS.join(', ')}`,
    read: (value) => LOG_LEVELS.find((level) => level === value),
  },
  default_provider: {
    live: 'daemon',
    env: 'SVC_PROVIDER',
    default: 'local',
    meaning: 'Provider of a run that names none.',
    ...name,
  },
  default_cloud_provider: {
    live: 'daemon',
    env: 'SVC_CLOUD_PROVIDER',
    default: null,
    meaning: 'Provider of `svc run --cloud`; without it, the only cloud provider there is.',
    expects: 'a name or null',
    read: (value) => (value === null ? null : readName(value)),
    fromText: nullText,
  },
  model: {
    live: 'daemon',
    env: 'SVC_MODEL',
    default: 'svc-mini',
    meaning:
      'Model of the local engine: svc-mini, a name in the models folder, or a path to a GGUF file.',
    ...name,
  },
  model_folders: {
    env: 'SVC_MODEL_FOLDERS',
    default: null,
    meaning:
      'Folders with model files of other programs. Null: those of Ollama, LM Studio and the ' +
      'cache of Hugging Face.',
    expects: 'a list of absolute paths, or null',
    read: (value) =>
      value === null || (Array.isArray(value) && value.every(isPath)) ? value : undefined,
    fromText: (text) =>
      nullText(text) === null ? null : text.split(',').flatMap((part) => part.trim() || []),
  },
  other_models: {
    env: 'SVC_OTHER_MODELS',
    default: true,
    meaning: 'Whether model files of other programs are listed, and used where they are.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  model_templates: {
    env: 'SVC_MODEL_TEMPLATES',
    default: {},
    meaning: 'Chat templates of local models, by name or alias, in place of those of their files.',
    expects:
      'an object such as {"tiny": "chatml", "mine": "/home/me/mine.jinja"}: by model the ' +
      `absolute path of a Jinja file, or one of ${TEMPLATE_FORMS.join(', ')}`,
    read: readTemplates,
    fromText: jsonText,
  },
  model_adapters: {
    env: 'SVC_MODEL_ADAPTERS',
    default: {},
    meaning: 'LoRA adapters of local models, by name or alias: GGUF files that are added to them.',
    expects: 'an object such as {"mine": ["/home/me/style.gguf"]}: by model absolute paths',
    read: readAdapters,
    fromText: jsonText,
  },
  model_drafts: {
    env: 'SVC_MODEL_DRAFTS',
    default: {},
    meaning:
      'Draft models of local models, by name or alias: smaller ones with the same vocabulary, ' +
      'which guess the next tokens of an answer.',
    expects: 'an object such as {"qwen3:8b": "qwen3:0.6b"}: a local model by model',
    read: readNames,
    fromText: jsonText,
  },
  aliases: {
    env: 'SVC_ALIASES',
    default: {},
    meaning:
      'Other names of models, for programs that ask for a fixed one. ' +
      'The models of a list are tried in order. An alias is looked at first, and once.',
    expects: 'an object such as {"gpt-4o": ["groq/llama-3.3-70b", "local/svc-mini"]}',
    read: readAliases,
    fromText: jsonText,
  },
  presets: {
    live: 'command',
    env: 'SVC_PRESETS',
    default: {},
    meaning:
      'Requests by name, for svc run --preset. The fields are those of a run. ' +
      'In template, {prompt} is the place of the prompt.',
    expects: 'an object such as {"short": {"system": "Answer in one sentence.", "temperature": 0}}',
    read: readPresets,
    findProblem: presetProblem,
    fromText: jsonText,
  },
  prices: {
    live: 'daemon',
    env: 'SVC_PRICES',
    default: {},
    meaning:
      'What a million tokens cost, by provider/model or provider/*. cached_input and cache_write ' +
      'are optional. A model without a price has an unknown cost.',
    expects:
      'an object such as {"openai/gpt-4o": {"input": 2.5, "cached_input": 1.25, "output": 10}}',
    read: readPrices,
    fromText: jsonText,
  },
  currency: {
    live: 'daemon',
    env: 'SVC_CURRENCY',
    default: 'USD',
    meaning: 'Name of the currency of prices and of the budget.',
    ...name,
  },
  budget_per_day: {
    live: 'daemon',
    env: 'SVC_BUDGET_PER_DAY',
    default: null,
    meaning:
      'What runs at cloud providers may cost on one day (UTC). ' +
      'Beyond it they are refused, and so is a model without a price. null: no limit.',
    expects: 'a number of at least 0, or null',
    read: (value) =>
      value === null || (typeof value === 'number' && value >= 0 && Number.isFinite(value))
        ? value
        : undefined,
    fromText: jsonText,
  },
  budget_tokens_per_day: {
    live: 'daemon',
    env: 'SVC_BUDGET_TOKENS_PER_DAY',
    default: null,
    meaning:
      'Input and output tokens of runs at cloud providers on one day (UTC). ' +
      'Beyond them such runs are refused. null: no limit.',
    expects: 'a whole number of at least 0, or null',
    read: (value) => (value === null ? null : readWhole(value, 0, Number.MAX_SAFE_INTEGER)),
    fromText: jsonText,
  },
  recovery: {
    live: 'daemon',
    env: 'SVC_RECOVERY',
    default: 'resume',
    meaning:
      'What happens to a run that a crash or a stop cuts off. resume: ' +
      'it continues where it stopped, starts over if nothing was delivered, or ends. ' +
      'restart: it starts over. end: it ends.',
    expects: 'one of resume, restart, end',
    read: (value) => RECOVERIES.find((recovery) => recovery === value),
  },
  ask_again: {
    live: 'daemon',
    env: 'SVC_ASK_AGAIN',
    default: false,
    meaning:
      'Whether a model is called once more when its answer does not have the requested form, ' +
      'such as its schema. It gets its answer and the mistakes in it. Not for a stream of a ' +
      'third-party API, because the client has read it.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
  llama_server: {
    env: 'SVC_LLAMA_SERVER',
    default: null,
    meaning:
      'Path of the llama-server that reads images and sound for local models. null: the one of ' +
      'svc engine install llama-server.',
    ...file,
  },
  engine_threads: {
    env: 'SVC_ENGINE_THREADS',
    default: null,
    meaning: 'Threads of the local engine. null: measured when a model is first loaded.',
    expects: 'a whole number from 1 to 512, or null',
    read: (value) => (value === null ? null : readWhole(value, 1, 512)),
    fromText: (text) => nullText(wholeText(text)),
  },
  models_memory_bytes: {
    env: 'SVC_MODELS_MEMORY_BYTES',
    default: null,
    meaning:
      'Memory of all local models together, in bytes, by estimate. ' +
      'Models without work make room for others. null: three quarters of the memory of the ' +
      'machine, or of its control group.',
    expects: 'a whole number from 1048576, or null',
    read: (value) => (value === null ? null : readWhole(value, 1_048_576, Number.MAX_SAFE_INTEGER)),
    fromText: (text) => nullText(wholeText(text)),
  },
  keep_alive: {
    env: 'SVC_KEEP_ALIVE',
    default: {},
    meaning:
      'How long models stay in memory without work, in milliseconds, by name. ' +
      'Any other model stays for engine_idle_ms.',
    expects: 'an object such as {"svc-mini": 3600000}',
    read: readDurations,
    fromText: jsonText,
  },
  engine_gpu_layers: {
    env: 'SVC_ENGINE_GPU_LAYERS',
    default: 'auto',
    meaning:
      'Layers of each local model on a GPU. auto: as many as fit beside the context. ' +
      'max: all, or the load fails. 0: no GPU is used.',
    expects: 'auto, max, or a whole number from 0 to 1000',
    read: (value) => (value === 'auto' || value === 'max' ? value : readWhole(value, 0, 1000)),
    fromText: (text) => (text === 'auto' || text === 'max' ? text : wholeText(text)),
  },
  engine_cache_keys: {
    env: 'SVC_ENGINE_CACHE_KEYS',
    default: 'f16',
    meaning:
      'Type of the cached keys of a context. q8_0 needs about half of the memory of f16. ' +
      'Smaller types change answers.',
    ...cacheType,
  },
  engine_cache_values: {
    env: 'SVC_ENGINE_CACHE_VALUES',
    default: 'f16',
    meaning: 'Type of the cached values of a context. A quantized one needs flash attention.',
    ...cacheType,
  },
  engine_flash_attention: {
    env: 'SVC_ENGINE_FLASH_ATTENTION',
    default: 'auto',
    meaning:
      'Whether the local engine computes with flash attention. ' +
      'auto: if the model and what computes it can.',
    ...autoSwitch,
  },
  engine_batching: {
    env: 'SVC_ENGINE_BATCHING',
    default: 'auto',
    meaning:
      'Whether the local engine computes the next tokens of concurrent runs in one batch, and ' +
      'those that a run alone guesses. ' +
      'auto: if that is faster, which it measures when a model is first loaded. ' +
      'Other runs can then change an answer. A run with a seed is always computed by ' +
      'itself. false: so is every run.',
    ...autoSwitch,
  },
  engine_preload: {
    env: 'SVC_ENGINE_PRELOAD',
    default: true,
    meaning:
      'Whether the daemon loads the default model when it starts. ' +
      'false: the first run waits for the load, and until then no engine takes memory.',
    expects: 'true or false',
    read: readSwitch,
    fromText: switchText,
  },
};
