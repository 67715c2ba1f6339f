import { readFileSync } from 'node:fs';
import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { SvcError } from './errors.ts';
import { defaultLimits, type LimitName, type Limits, limitSpecs } from './limits.ts';

/**
 * The configuration: flag > environment > file > default, each value with where it came from.
 * The file is JSON with comments. A key that is not known is an error, since it is most often a typing mistake.
 */

export interface ProviderConfig {
  adapter: 'openai-compatible';
  kind: 'local' | 'cloud';
  base_url: string;
  /** Model used when a run names none. */
  model: string | null;
  /** Name of the environment variable that holds the key; the key itself is never stored. */
  key_env: string | null;
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
  /** Threads of the local engine; null: measured when a model is first loaded. */
  engine_threads: number | null;
}

export type Source = 'flag' | 'environment' | 'file' | 'default';

export interface Config extends Settings {
  limits: Limits;
  providers: Record<string, ProviderConfig>;
  /** Where each value came from, by its dotted key. */
  sources: Record<string, Source>;
  file: string;
}

export const PROVIDER_ID = /^[a-z][a-z0-9_-]{0,39}$/;
export const LOG_LEVELS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

export interface SettingSpec {
  env: string;
  default: Settings[keyof Settings];
  meaning: string;
  /** The value from JSON or from text; undefined when it is not of the right form. */
  read(value: unknown): unknown;
  expects: string;
}

const address = { expects: 'an address such as "127.0.0.1:4780"', read: (v: unknown) => (typeof v === 'string' && parseAddress(v) !== null ? v : undefined) };
const name = { expects: 'a name', read: (v: unknown) => (typeof v === 'string' && v !== '' ? v : undefined) };
const flag = { expects: 'true or false', read: (v: unknown) => (v === true || v === 'true' || v === '1' ? true : v === false || v === 'false' || v === '0' ? false : undefined) };

export const settingSpecs: Record<keyof Settings, SettingSpec> = {
  http: { env: 'SVC_HTTP', default: '127.0.0.1:4780', meaning: 'Address of the HTTP and WebSocket listener; port 0 is any free one.', ...address },
  grpc: { env: 'SVC_GRPC', default: '127.0.0.1:4781', meaning: 'Address of the gRPC listener; port 0 is any free one.', ...address },
  auth: { env: 'SVC_AUTH', default: true, meaning: 'Whether HTTP asks for the token. Off is possible on loopback only.', ...flag },
  allowed_origins: {
    env: 'SVC_ALLOWED_ORIGINS',
    default: [],
    meaning: 'Web origins that may call the HTTP interface, besides its own.',
    expects: 'a list of origins such as "https://example.org"',
    read: (v) => {
      const list = typeof v === 'string' ? v.split(',').filter((part) => part !== '') : v;
      return Array.isArray(list) && list.every((item) => typeof item === 'string' && URL.canParse(item)) ? list : undefined;
    },
  },
  log_level: { env: 'SVC_LOG_LEVEL', default: 'info', meaning: 'Lowest level that is logged.', expects: LOG_LEVELS.join(', '), read: (v) => (LOG_LEVELS.includes(v as LogLevel) ? v : undefined) },
  default_provider: { env: 'SVC_PROVIDER', default: 'local', meaning: 'Provider of a run that names none.', ...name },
  default_cloud_provider: { env: 'SVC_CLOUD_PROVIDER', default: null, meaning: 'Provider of `svc run --cloud`; without it, the only cloud provider there is.', expects: 'a name or null', read: (v) => (v === null ? null : name.read(v)) },
  model: { env: 'SVC_MODEL', default: 'svc-mini', meaning: 'Model of the local engine: svc-mini, a name in the models folder, or a path to a GGUF file.', ...name },
  engine_threads: {
    env: 'SVC_ENGINE_THREADS',
    default: null,
    meaning: 'Threads of the local engine; null: measured when a model is first loaded.',
    expects: 'a whole number from 1 to 512, or null',
    read: (v) => (v === null || v === 'null' ? null : whole(v, 1, 512)),
  },
};

/** Host and port of an address; null when it is not one. */
export function parseAddress(text: string): { host: string; port: number } | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  return match !== null && port <= 65_535 ? { host: match[1] ?? match[2] ?? '', port } : null;
}

/** Throws config_invalid, with line and column for a mistake in the file. */
export function loadConfig(file: string, options: { env?: NodeJS.ProcessEnv; flags?: Partial<Record<keyof Settings, unknown>> } = {}): Config {
  const { env = process.env, flags = {} } = options;
  const written = readFile(file);
  const sources: Record<string, Source> = {};
  const settings: Record<string, unknown> = {};
  for (const [key, spec] of Object.entries(settingSpecs)) {
    settings[key] = spec.default;
    sources[key] = 'default';
    const use = (value: unknown, source: Source, where: string) => {
      const read = spec.read(value);
      if (read === undefined) throw new SvcError('config_invalid', `${where}: ${key} must be ${spec.expects}, not ${JSON.stringify(value)}.`, { param: key });
      settings[key] = read;
      sources[key] = source;
    };
    const node = written.values.get(key);
    if (node !== undefined) use(node.value, 'file', node.where);
    if (env[spec.env] !== undefined && env[spec.env] !== '') use(env[spec.env], 'environment', `environment variable ${spec.env}`);
    const flagged = flags[key as keyof Settings];
    if (flagged !== undefined) use(flagged, 'flag', `--${key.replaceAll('_', '-')}`);
  }
  const limits = readLimits(written, env, sources);
  const providers = readProviders(written, sources);
  return { ...(settings as unknown as Settings), limits, providers, sources, file };
}

interface Written {
  values: Map<string, { value: unknown; where: string }>;
}

/** The file as a flat map of dotted keys, each with its place for messages. */
function readFile(file: string): Written {
  const values: Written['values'] = new Map();
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { values };
    throw new SvcError('config_invalid', `${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`, { cause: error });
  }
  const at = (offset: number) => {
    const before = text.slice(0, offset).split('\n');
    return `${file}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
  };
  const problems: ParseError[] = [];
  const root = parseTree(text, problems, { allowTrailingComma: true });
  const [first] = problems;
  if (first !== undefined) throw new SvcError('config_invalid', `${at(first.offset)}: ${words(printParseErrorCode(first.error))}.`);
  if (root === undefined) return { values };
  if (root.type !== 'object') throw new SvcError('config_invalid', `${at(root.offset)}: the configuration must be an object.`);
  const walk = (node: Node, prefix: string, depth: number) => {
    for (const property of node.children ?? []) {
      const [keyNode, valueNode] = property.children ?? [];
      if (keyNode === undefined || valueNode === undefined) continue;
      const key = prefix + String(keyNode.value);
      values.set(key, { value: plain(valueNode), where: at(valueNode.offset) });
      if (valueNode.type === 'object' && depth < 2 && (key === 'limits' || key.startsWith('providers'))) walk(valueNode, `${key}.`, depth + 1);
    }
  };
  walk(root, '', 0);
  for (const [key, { where }] of values) {
    const [top = '', second] = key.split('.');
    if (top in settingSpecs || top === 'providers' || (top === 'limits' && (second === undefined || second in limitSpecs))) continue;
    throw new SvcError('config_invalid', `${where}: ${key} is not a setting.`, { param: key, hint: 'See the table of settings in docs/operations.md.' });
  }
  return { values };
}

function plain(node: Node): unknown {
  if (node.type === 'object') return Object.fromEntries((node.children ?? []).map((p) => [String(p.children?.[0]?.value), p.children?.[1] && plain(p.children[1])]));
  if (node.type === 'array') return (node.children ?? []).map(plain);
  return node.value;
}

function readLimits(written: Written, env: NodeJS.ProcessEnv, sources: Record<string, Source>): Limits {
  const limits: Limits = { ...defaultLimits };
  const whole_limits = written.values.get('limits');
  if (whole_limits !== undefined && (typeof whole_limits.value !== 'object' || whole_limits.value === null || Array.isArray(whole_limits.value))) {
    throw new SvcError('config_invalid', `${whole_limits.where}: limits must be an object.`, { param: 'limits' });
  }
  for (const [key, spec] of Object.entries(limitSpecs) as [LimitName, (typeof limitSpecs)[LimitName]][]) {
    const variable = `SVC_LIMIT_${key.toUpperCase()}`;
    const fromFile = written.values.get(`limits.${key}`);
    sources[`limits.${key}`] = 'default';
    const use = (value: unknown, source: Source, where: string) => {
      const read = whole(value, spec.min, spec.max);
      if (read === undefined) throw new SvcError('config_invalid', `${where}: ${key} must be a whole number from ${spec.min} to ${spec.max}, not ${JSON.stringify(value)}.`, { param: key });
      limits[key] = read;
      sources[`limits.${key}`] = source;
    };
    if (fromFile !== undefined) use(fromFile.value, 'file', fromFile.where);
    if (env[variable] !== undefined && env[variable] !== '') use(env[variable], 'environment', `environment variable ${variable}`);
  }
  return limits;
}

function readProviders(written: Written, sources: Record<string, Source>): Record<string, ProviderConfig> {
  const all = written.values.get('providers');
  if (all === undefined) return {};
  if (typeof all.value !== 'object' || all.value === null || Array.isArray(all.value)) throw new SvcError('config_invalid', `${all.where}: providers must be an object.`, { param: 'providers' });
  const providers: Record<string, ProviderConfig> = {};
  for (const [id, value] of Object.entries(all.value)) {
    const where = written.values.get(`providers.${id}`)?.where ?? all.where;
    providers[id] = readProvider(id, value, where);
    sources[`providers.${id}`] = 'file';
  }
  return providers;
}

/** Checks one provider's settings; also used for `svc provider add`. `where` begins the message. */
export function readProvider(id: string, value: unknown, where: string): ProviderConfig {
  const fail = (param: string, what: string): never => {
    throw new SvcError('config_invalid', `${where}: provider ${JSON.stringify(id)}: ${what}.`, { param });
  };
  if (!PROVIDER_ID.test(id) || id === 'local') fail('id', id === 'local' ? 'local is the built-in engine' : 'an id is a lower-case letter, then letters, digits, - and _, 40 at most');
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return fail('providers', 'must be an object');
  const given = value as Record<string, unknown>;
  const known = ['adapter', 'kind', 'base_url', 'model', 'key_env'];
  for (const key of Object.keys(given)) if (!known.includes(key)) fail(key, `${key} is not a setting; there are ${known.join(', ')}`);
  const { adapter = 'openai-compatible', base_url, model = null, key_env = null } = given;
  if (adapter !== 'openai-compatible') fail('adapter', 'adapter must be "openai-compatible"');
  if (typeof base_url !== 'string' || !URL.canParse(base_url) || !/^https?:$/.test(new URL(base_url).protocol)) return fail('base_url', 'base_url must be an http or https address');
  const url = new URL(base_url);
  if (url.username !== '' || url.password !== '') fail('base_url', 'base_url must not hold credentials; use key_env');
  const kind = given.kind ?? (isLoopback(url.hostname) ? 'local' : 'cloud');
  if (kind !== 'local' && kind !== 'cloud') return fail('kind', 'kind must be "local" or "cloud"');
  if (model !== null && (typeof model !== 'string' || model === '')) return fail('model', 'model must be a name');
  if (key_env !== null && (typeof key_env !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key_env))) return fail('key_env', 'key_env must be the name of an environment variable');
  return { adapter: 'openai-compatible', kind, base_url: base_url.replace(/\/+$/, ''), model, key_env };
}

export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  return bare === 'localhost' || bare === '::1' || /^127(\.\d{1,3}){3}$/.test(bare);
}

function whole(value: unknown, min: number, max: number): number | undefined {
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max ? number : undefined;
}

/** `CommaExpected` as words. */
function words(code: string): string {
  return code.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
}
