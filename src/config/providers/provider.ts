import { isAbsolute } from 'node:path';
import { COMMAND_WORDS_MAX, limitSpecs, PROVIDER_HEADERS_MAX } from '../../limits.ts';
import { isLoopback } from '../address.ts';
import { KEY_REFERENCE, readKeyReference, variableReference } from '../key-reference.ts';
import { brief, refuse } from '../text.ts';
import { readBaseUrl, readName, readNames, readSwitch, readWhole } from '../value.ts';
import { adapterSpec, adapters, packageOf } from './adapters.ts';
import { type KnownProvider, knownProvider, knownProviders } from './known-providers.ts';

/** The settings of a provider, complete: absent ones have their defaults. */
export interface ProviderConfig {
  /** The row of the known providers that gave the defaults. Null: none. */
  like: string | null;
  /** A row of the adapters, or `npm:<package>`. */
  adapter: string;
  kind: 'local' | 'cloud';
  /** Without a slash at the end. Null: the options of the adapter say the address. */
  base_url: string | null;
  /** The model of runs that name none. */
  model: string | null;
  /** Where the key is, such as `env:OPENAI_API_KEY`. The key itself is never stored. */
  key: string | null;
  /** Headers of every request. They hold no credentials. */
  headers: Readonly<Record<string, string>>;
  /** Options of the adapter. */
  options: Readonly<Record<string, string>>;
  /** Off: the server answers only whole, not in pieces. */
  stream: boolean;
  /** Runs that it answers at one time; null: the limit provider_runs. */
  max_runs: number | null;
  /** The program of a server that svc starts itself, with its arguments. Null: it starts none. */
  command: readonly [string, ...string[]] | null;
  /** Memory that this server needs and may have. Null: the files that its command names say it. */
  memory_bytes: number | null;
}

interface Field<T> {
  meaning: string;
  /** The valid form of a value; it ends "<field> must be …". */
  expects: string;
  /** Undefined: malformed. `fail` says something more exact. */
  read(value: unknown, fail: (what: string) => never): T | undefined;
}

/** One row for each setting: its check, and its line in the documentation. */
export const providerFields: { readonly [K in keyof ProviderConfig]: Field<ProviderConfig[K]> } = {
  like: {
    meaning: 'Known provider whose values count where this one has none.',
    expects: `one of ${Object.keys(knownProviders).join(', ')}`,
    read: (value) =>
      value === null ? null : Object.keys(knownProviders).find((id) => id === value),
  },
  adapter: {
    meaning: 'Protocol of the API.',
    expects: `one of ${Object.keys(adapters).join(', ')}, or npm:<package>`,
    read: (value) =>
      typeof value === 'string' && (adapterSpec(value) !== undefined || packageOf(value) !== null)
        ? value
        : undefined,
  },
  kind: {
    meaning: 'Whether prompts leave this machine. Without it the address decides.',
    expects: '"local" or "cloud"',
    read: (value) => (value === 'local' || value === 'cloud' ? value : undefined),
  },
  base_url: {
    meaning: "Base address of the API. Without it the adapter's own counts.",
    expects: 'an http or https address',
    read: (value, fail) => (value === null ? null : readBaseUrl(value, fail)),
  },
  model: {
    meaning: 'Model of runs that name none.',
    expects: 'the name of a model',
    read: (value) => (value === null ? null : readName(value)),
  },
  key: {
    meaning: 'Where the key is. It is read for each request.',
    expects: `${KEY_REFERENCE}; it is not the key`,
    read: (value) => (value === null ? null : readKeyReference(value)),
  },
  headers: {
    meaning: 'Headers of every request, without credentials.',
    expects: `an object of at most ${PROVIDER_HEADERS_MAX} names and texts`,
    read: readHeaders,
  },
  options: {
    meaning: 'Options of the adapter.',
    expects: 'an object of names and texts',
    read: readNames,
  },
  stream: {
    meaning: 'Off: the server answers only whole, not in pieces.',
    expects: 'true or false',
    read: readSwitch,
  },
  max_runs: {
    meaning: 'Runs that it answers at one time. Without it the limit provider_runs counts.',
    expects: `a whole number from 1 to ${limitSpecs.provider_runs.max}`,
    read: (value) => (value === null ? null : readWhole(value, 1, limitSpecs.provider_runs.max)),
  },
  command: {
    meaning:
      'Server that svc starts itself: a program and its arguments, where {port} and {key} stand ' +
      'for its private port and key. Only config.json can have it.',
    expects: `a list of at most ${COMMAND_WORDS_MAX} texts: the path or the name of a program first`,
    read: readCommand,
  },
  memory_bytes: {
    meaning:
      'Memory that the server of command needs and may have. Without it, the sizes of the files ' +
      'that its command names count.',
    expects: 'a whole number of bytes',
    read: (value) => (value === null ? null : readWhole(value, 1, Number.MAX_SAFE_INTEGER)),
  },
};

const FIELDS = Object.keys(providerFields) as (keyof ProviderConfig)[];

/**
 * Checks the settings of a provider, from a file or from `svc provider add`.
 * `where` begins the message: one place for all fields, or one for each. Throws `code`, with the
 * field as param.
 *
 * 1. A given value counts first, then that of the known provider, then the default.
 * 2. Without `like`, the known provider of the same id counts, unless adapter or address is given.
 * 3. The key of a known provider goes to no other address.
 */
export function readProvider(
  id: string,
  value: unknown,
  where: string | ((field: string) => string),
  code: 'config_invalid' | 'invalid_request' = 'config_invalid',
): ProviderConfig {
  const fail: Fail = (field, what) =>
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
  const config = withDefaults(id, readFields({ ...value }, fail));
  checkAdapter(config, fail);
  return config;
}

type Fail = (field: string, what: string) => never;

function readFields(
  { key_env = null, ...settings }: Record<string, unknown>,
  fail: Fail,
): Partial<ProviderConfig> {
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(settings)) {
    const field = FIELDS.find((known) => known === name);
    if (field === undefined)
      return fail(name, `${brief(name)} is not a setting; there are ${FIELDS.join(', ')}`);
    const { expects, read: readValue } = providerFields[field];
    read[name] = readValue(value, (what) => fail(name, what));
    if (read[name] === undefined) fail(name, `${name} must be ${expects}`);
  }
  if (key_env === null) return read;
  if (settings.key !== undefined)
    fail('key_env', 'key_env is the old name of key, and both are set');
  const key = variableReference(key_env);
  return key === undefined
    ? fail('key_env', 'key_env must name an environment variable; it is not the key')
    : { ...read, key };
}

/** Complete settings: see the rules of `readProvider`. */
export function withDefaults(id: string, settings: Partial<ProviderConfig>): ProviderConfig {
  const isBare = settings.adapter === undefined && (settings.base_url ?? null) === null;
  const { like = isBare && knownProvider(id) !== undefined ? id : null } = settings;
  const row = like === null ? undefined : knownProvider(like);
  const { adapter = row?.adapter ?? 'openai-compatible' } = settings;
  const own = row?.adapter === adapter ? row : undefined;
  const { command = null, memory_bytes = null } = settings;
  const isStarted = command !== null;
  const usual = isStarted ? null : (own?.base_url ?? adapterSpec(adapter)?.base_url ?? null);
  const base_url = settings.base_url ?? usual;
  const {
    kind = isStarted ? 'local' : kindOf(base_url, row),
    model = row?.model ?? (isStarted ? id : null),
    key = own === undefined || isStarted ? null : usualKey(own, base_url),
    headers = {},
    options = {},
    stream = true,
    max_runs = null,
  } = settings;
  return {
    like,
    adapter,
    kind,
    base_url,
    model,
    key,
    headers,
    options,
    stream,
    max_runs,
    command,
    memory_bytes,
  };
}

/** An address on this machine is local. Without an address the known provider decides. */
export function kindOf(base_url: string | null, row?: KnownProvider): ProviderConfig['kind'] {
  if (base_url === null) return row?.kind ?? 'cloud';
  return isLoopback(new URL(base_url).hostname) ? 'local' : 'cloud';
}

function usualKey({ key_env, ...row }: KnownProvider, base_url: string | null): string | null {
  const isElsewhere = row.base_url !== null && row.base_url !== base_url;
  return key_env === null || isElsewhere ? null : `env:${key_env}`;
}

function checkAdapter({ adapter, options, ...config }: ProviderConfig, fail: Fail): void {
  const spec = adapterSpec(adapter);
  if (spec === undefined) return;
  if (config.command !== null) checkStarted({ adapter, ...config }, fail);
  else if (adapter === 'openai-compatible' && config.base_url === null)
    fail('base_url', 'base_url is missing; it is an http or https address');
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(spec.options, name));
  if (unknown !== undefined) {
    const known = Object.keys(spec.options).join(', ');
    fail('options', `${brief(unknown)} is not an option of ${adapter}; it has ${known || 'none'}`);
  }
  const values: Record<string, unknown> = { ...config, ...options };
  if (config.command !== null) values.base_url = 'http://127.0.0.1';
  const missing = spec.needs.find((names) =>
    names.every((name) => (values[name] ?? null) === null),
  );
  if (missing !== undefined)
    fail(missing[0] ?? '', `the adapter ${adapter} needs ${missing.join(' or ')}`);
}

/** svc chooses the address and the key of a server that it starts. */
function checkStarted(
  { adapter, base_url, key, kind, model }: Omit<ProviderConfig, 'options'>,
  fail: Fail,
): void {
  if (adapter !== 'openai-compatible')
    fail('adapter', 'a server of command has the adapter openai-compatible');
  if (base_url !== null) fail('base_url', 'base_url and command exclude each other');
  if (key !== null) fail('key', 'key and command exclude each other: svc makes a key itself');
  if (kind !== 'local') fail('kind', 'a server of command has the kind local');
  if (model === null) fail('model', 'a server of command needs a model');
}

function readCommand(value: unknown, fail: (what: string) => never) {
  if (value === null) return null;
  if (!Array.isArray(value) || value.length > COMMAND_WORDS_MAX) return undefined;
  const [program, ...words] = value;
  const isWord = (word: unknown) => typeof word === 'string' && !word.includes('\0');
  if (readName(program) === undefined || !words.every(isWord)) return undefined;
  if (/[\\/]/.test(program) && !isAbsolute(program))
    fail(`command has ${brief(program)}; a path of a program must be absolute`);
  return value as [string, ...string[]];
}

function readHeaders(value: unknown, fail: (what: string) => never) {
  const headers = readNames(value);
  if (headers === undefined || Object.keys(headers).length > PROVIDER_HEADERS_MAX) return undefined;
  for (const [name, text] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name) || !HEADER_TEXT.test(text))
      fail(`headers has ${brief(name)}, which is not valid in HTTP`);
    if (CREDENTIALS.test(name))
      fail(`headers must not hold credentials, such as ${brief(name)}; use key`);
    if (RESERVED.test(name)) fail(`headers must not have ${brief(name)}, which svc sets itself`);
  }
  return headers;
}

const PROVIDER_ID = /^[a-z][a-z0-9_-]{0,39}$/;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const HEADER_TEXT = /^[\x20-\x7e]{1,4096}$/;
const CREDENTIALS = /auth|cookie|token|secret|(^|-)key$|api-?key/i;
const RESERVED =
  /^(host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|keep-alive|accept|accept-encoding)$/i;
