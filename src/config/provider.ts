import { limitSpecs } from '../limits.ts';
import { isLoopback } from './address.ts';
import { brief, refuse } from './text.ts';
import { readBaseUrl, readName, readWhole } from './value.ts';

export interface ProviderConfig {
  adapter: 'openai-compatible';
  kind: 'local' | 'cloud';
  /** Without a slash at the end. */
  base_url: string;
  /** The model of runs that name none. */
  model: string | null;
  /** The environment variable of the key. The key itself is never stored. */
  key_env: string | null;
  /** Runs that it answers at one time; null: the limit provider_runs. */
  max_runs: number | null;
}

/**
 * Checks the settings of a provider, from a file or from `svc provider add`.
 * `where` begins the message: one place for all fields, or one for each. Throws `code`, with the
 * field as param.
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

const PROVIDER_ID = /^[a-z][a-z0-9_-]{0,39}$/;
const PROVIDER_FIELDS = ['adapter', 'kind', 'base_url', 'model', 'key_env', 'max_runs'];
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
