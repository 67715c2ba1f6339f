import { isDeepStrictEqual } from 'node:util';
import { SvcError } from '../../errors.ts';
import { packageOf } from './adapters.ts';
import { type ProviderConfig, readProvider, withDefaults } from './provider.ts';

/**
 * The settings of a provider that a request adds. No request names a package to load or a command
 * to start: that is code with the rights of the daemon. Throws the errors of `readProvider`, with
 * `where` at the beginning, and invalid_request for a package or a command.
 */
export function readAddedProvider(id: string, config: unknown, where: string): ProviderConfig {
  const settings = readProvider(id, config, where, 'invalid_request');
  refuseCode(settings);
  return settings;
}

function refuseCode({ adapter, command }: ProviderConfig): void {
  const refused = (param: string, what: string, setting: string) =>
    new SvcError('invalid_request', `${what} Only your configuration file can name one.`, {
      param,
      hint:
        `Write the provider with "${param}": ${setting} into config.json, then run: ` +
        'svc restart',
    });
  if (packageOf(adapter) !== null)
    throw refused('adapter', `The adapter ${adapter} loads a package.`, `"${adapter}"`);
  if (command !== null)
    throw refused('command', 'The setting command starts a program.', '["…", "…"]');
}

/**
 * The settings of a provider after `svc provider set`.
 *
 * 1. A given value replaces the present one. Headers and options are replaced by name; null removes
 *    one.
 * 2. Derived settings are derived again: a new address decides the kind, unless the
 *    kind was set.
 * 3. The key goes to no other server. A change of the server drops its reference, unless the change
 *    names one.
 *
 * Throws the errors of `readAddedProvider`.
 */
export function applyProviderChange(
  id: string,
  present: ProviderConfig,
  change: Readonly<Record<string, unknown>>,
  where: string,
): ProviderConfig {
  const { headers, options, ...values } = change;
  const wanted = (set: Record<string, unknown>) =>
    readProvider(id, { ...set, ...values, ...merged }, where, 'invalid_request');
  const merged = {
    ...(headers === undefined ? {} : { headers: mergeNames(present.headers, headers) }),
    ...(options === undefined ? {} : { options: mergeNames(present.options, options) }),
  };
  const set = settingsOf(id, present);
  const next = wanted(set);
  const isCodeOf = ({ adapter, command }: ProviderConfig) => ({ adapter, command });
  if (!isDeepStrictEqual(isCodeOf(next), isCodeOf(present))) refuseCode(next);
  const keepsKey = 'key' in values || 'key_env' in values || isSameServer(present, next);
  if (keepsKey) return next;
  const { key: _, ...rest } = set;
  return wanted(rest);
}

/** The settings that do not follow from the id and the other settings. */
function settingsOf(id: string, present: ProviderConfig): Record<string, unknown> {
  const { like, adapter, base_url, ...rest } = present;
  const set: Record<string, unknown> = {};
  // The first three decide the defaults of the others.
  for (const [field, value] of Object.entries({ like, adapter, base_url, ...rest })) {
    const usual = withDefaults(id, set)[field as keyof ProviderConfig];
    if (!isDeepStrictEqual(usual, value)) set[field] = value;
  }
  return set;
}

/** A malformed value stays as it is, and is refused later. */
function mergeNames(present: Readonly<Record<string, string>>, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const all: Record<string, unknown> = { ...present, ...change };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}

function isSameServer(one: ProviderConfig, other: ProviderConfig): boolean {
  const server = ({ base_url, adapter }: ProviderConfig) =>
    base_url === null ? adapter : new URL(base_url).origin;
  return server(one) === server(other);
}
