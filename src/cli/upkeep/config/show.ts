import type { ProviderConfig } from '../../../config/providers/provider.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { note, paint, print, printJson } from '../../terminal/print/output.ts';
import { table } from '../../terminal/print/table.ts';
import { valueText } from './setting.ts';
import { activeConfig, noteNotInForce } from './values.ts';

/** The configuration of the running daemon, else that of the next start. */
export async function run({ paths, json }: Context): Promise<number> {
  const { config, why } = await activeConfig(paths);
  const { sources, renamed: _, removed: __, file, limits: all_limits, history, ...rest } = config;
  const limits = Object.fromEntries(
    Object.entries(all_limits).filter(([name]) => sources[`limits.${name}`] !== undefined),
  );
  const { providers: all, ...settings } = rest;
  const providers = Object.fromEntries(
    Object.entries(all).map(([id, provider]) => [id, withoutHeaders(provider)]),
  );
  const valued = (values: object, prefix = '') =>
    Object.fromEntries(
      Object.entries(values).map(([key, value]) => [
        key,
        { value, source: sources[prefix + key] ?? 'default' },
      ]),
    );
  if (json)
    return printJson({
      file,
      daemon_running: why !== 'is not running',
      settings: valued(settings),
      history: valued(history, 'history.'),
      limits: valued(limits, 'limits.'),
      providers: valued(providers, 'providers.'),
    });
  const changed = Object.entries(limits).filter(([key]) => sources[`limits.${key}`] !== 'default');
  const rows = [
    ...Object.entries(settings),
    ...addPrefix('history.', Object.entries(history)),
    ...addPrefix('limits.', changed),
    ...addPrefix('providers.', Object.entries(providers).map(withoutUnset)),
  ].map(([key, value]) => [
    key,
    sources[key] ?? (key.startsWith('providers.') ? 'file' : 'default'),
    valueText(value),
  ]);
  print(
    `${table(['SETTING', 'FROM', 'VALUE'], rows)}\n\n${paint('dim', `File: ${oneLine(file)}`)}`,
  );
  note(
    `${Object.keys(limits).length - changed.length} limits have their default. ` +
      'To see all: svc config show --json',
  );
  if (why === null) await noteNotInForce(paths);
  else note(`The daemon ${why}. Its next start uses these values.`);
  return 0;
}

/** Unset fields are left out of a line. JSON has them. */
function withoutUnset([id, provider]: [string, ProviderConfig]): [string, unknown] {
  const isSet = ([, value]: [string, unknown]) =>
    value !== null && !(typeof value === 'object' && Object.keys(value).length === 0);
  return [id, Object.fromEntries(Object.entries(provider).filter(isSet))];
}

function addPrefix(prefix: string, values: [string, unknown][]): [string, unknown][] {
  return values.map(([key, value]) => [prefix + key, value]);
}

/** The text of a header may be private, so only its name is shown. */
function withoutHeaders(provider: ProviderConfig): ProviderConfig {
  const names = Object.keys(provider.headers ?? {});
  return { ...provider, headers: Object.fromEntries(names.map((name) => [name, '(not shown)'])) };
}
