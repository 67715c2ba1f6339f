import { loadConfig } from '../../config/config.ts';
import { knownProvider } from '../../config/known-providers.ts';
import { type ProviderConfig, readProvider } from '../../config/provider.ts';
import { brief } from '../../config/text.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { whenNotRunning } from '../connect/not-running.ts';
import type { Context, Flags } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { note, print, printJson } from '../print/output.ts';
import { type ProviderShown, shown } from './configured.ts';

/** Without a daemon, writes providers.json for the next start. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  const settings = readSettings(id, flags);
  const params = { id, ...settings };
  const provider: ProviderShown = await askDaemon(paths, 'provider.add', params, {
    timeout_ms: ADD_MS,
  }).catch(whenNotRunning(() => addToFile(paths, id, settings)));
  if (json) printJson(provider);
  else {
    const { kind, state, reason, base_url, adapter } = provider;
    const why = reason === null ? '' : `. ${reason}`;
    print(oneLine(`Added ${provider.id} (${kind}, ${base_url ?? adapter}): ${state}${why}`));
    if (provider.state === 'unauthorised') noteKey(id, settings);
    else if (settings.kind === 'cloud')
      note(`Prompts to it leave this machine: svc run "…" --provider ${id}`);
    else note(`To use it: svc run "…" --provider ${id}`);
  }
  return 0;
}

/** Without its key a provider cannot be asked yet. */
function noteKey(id: string, { like }: ProviderConfig): void {
  const { name, keys_at } = (like === null ? undefined : knownProvider(like)) ?? {};
  if (typeof keys_at === 'string') note(`Keys of ${name} are made at ${keys_at}`);
  note(`To store its key: svc provider key ${id}`);
}

/** The daemon probes a local provider before it answers. */
const ADD_MS = 70_000;

function readSettings(id: string, flags: Flags): ProviderConfig {
  const given = {
    base_url: textFlag(flags, 'base-url'),
    like: textFlag(flags, 'like'),
    adapter: textFlag(flags, 'adapter'),
    model: textFlag(flags, 'model'),
    key: textFlag(flags, 'key'),
    key_env: textFlag(flags, 'key-env'),
    kind: textFlag(flags, 'kind'),
    options: readOptions(textFlag(flags, 'options')),
  };
  const written = Object.fromEntries(
    Object.entries(given)
      .filter(([, value]) => value !== undefined)
      .map(([field, value]) => [field, field === 'key' && value === 'none' ? null : value]),
  );
  try {
    return readProvider(id, written, WHERE, 'invalid_request');
  } catch (error) {
    throw error instanceof SvcError ? inFlags(id, error) : error;
  }
}

/** `region=us-east-1,project=mine` as an object. */
function readOptions(text: string | undefined): Record<string, string> | undefined {
  if (text === undefined) return undefined;
  const pairs = text.split(',').map((pair) => pair.split('='));
  if (pairs.every(([name, ...value]) => name && value.join('=') !== ''))
    return Object.fromEntries(pairs.map(([name, ...value]) => [name, value.join('=')]));
  throw new SvcError('usage', '--options must be names and texts, such as region=us-east-1.', {
    param: 'options',
  });
}

const WHERE = 'svc provider add';

/** The error with flags instead of settings. */
function inFlags(id: string, { message, param }: SvcError): SvcError {
  const what = message
    .slice(`${WHERE}: provider ${brief(id)}: `.length)
    .replace(/\b(base_url|key_env)\b/g, (field) => `--${field.replace('_', '-')}`);
  const flagged = what.startsWith('--') ? what : `--${what}`;
  const named =
    param === 'id' ? `A provider cannot be named ${JSON.stringify(id)}: ${what}` : flagged;
  return new SvcError('usage', named, {
    hint: 'See: svc provider add --help',
    ...(param === null ? {} : { param: param.replace('_', '-') }),
  });
}

async function addToFile(
  paths: Paths,
  id: string,
  settings: ProviderConfig,
): Promise<ProviderShown> {
  if (Object.hasOwn(loadConfig(paths.config).providers, id))
    throw new SvcError('provider_exists', `A provider ${id} is configured already.`, {
      param: 'id',
    });
  const { saveProvider } = await import('../../config/providers-file.ts');
  await saveProvider(paths.config, id, settings);
  return shown(id, settings);
}
