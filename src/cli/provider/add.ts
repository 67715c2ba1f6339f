import { splitReference } from '../../config/key-reference.ts';
import { knownProvider, knownProviders } from '../../config/providers/known-providers.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import { readAddedProvider } from '../../config/providers/provider-request.ts';
import { suggest } from '../../config/suggest.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context, Flags } from '../terminal/context.ts';
import type { ProviderView } from '../terminal/offline/configured.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { settingsIn, toFlagError } from './settings-flags.ts';

/** Without a daemon, writes providers.json for the next start. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  const settings = readSettings(id, flags);
  const { answer: provider, isRunning } = await askHome(
    paths,
    'provider.add',
    { id, ...settings },
    { timeout_ms: ADD_MS },
  );
  if (json) printJson(provider);
  else {
    print(oneLine(`Added ${describeProvider(provider)}${isRunning ? stateOf(provider) : ''}.`));
    await noteNextStep(provider, settings, { paths, isRunning });
  }
  return 0;
}

/** The daemon probes a local provider before it answers. */
export const ADD_MS = 70_000;

export function describeProvider({ id, kind, base_url, adapter }: ProviderView): string {
  return `${id} (${kind}, ${base_url ?? adapter})`;
}

export function stateOf({ state, reason }: ProviderView): string {
  return `: ${state}${reason === null ? '' : `. ${reason.replace(/\.$/, '')}`}`;
}

function readSettings(id: string, flags: Flags): ProviderConfig {
  const settings = settingsIn(flags);
  const near = isBare(id, flags) ? suggest(id, Object.keys(knownProviders)) : null;
  if (near !== null)
    throw new SvcError('usage', `svc knows no provider ${JSON.stringify(id)}.`, {
      param: 'id',
      hint: `Did you mean: svc provider add ${near}? Another server needs --base-url <url>`,
    });
  try {
    return readAddedProvider(id, settings, WHERE);
  } catch (thrown) {
    throw toFlagError(thrown, { where: WHERE, id, command: 'svc provider add' });
  }
}

/** Whether neither a flag nor a known provider describes the provider. */
function isBare(id: string, flags: Flags): boolean {
  const says = ['base-url', 'like', 'adapter', 'options'].some((flag) => flags[flag] !== undefined);
  return !says && knownProvider(id) === undefined;
}

const WHERE = 'svc provider add';

/** Prints the next steps of the user, with the exact commands. */
async function noteNextStep(
  { kind, state, base_url, ...provider }: ProviderView,
  settings: Pick<ProviderConfig, 'like' | 'key'>,
  { paths, isRunning }: { paths: Paths; isRunning: boolean },
): Promise<void> {
  // A daemon of another version may say anything.
  const id = oneLine(provider.id);
  const lacksKey = isRunning ? state === 'unauthorised' : await isKeyAbsent(id, settings, paths);
  if (lacksKey) noteKey(id, settings);
  if (!isRunning) note('The daemon is not running. Its next start has this provider: svc start');
  if (kind === 'cloud')
    note(
      lacksKey
        ? `Then, to ask it: svc run "…" --provider ${id} (the prompt leaves this machine)`
        : `Prompts to it leave this machine: svc run "…" --provider ${id}`,
    );
  else if (isRunning && !lacksKey && state !== 'available')
    note(
      `Nothing answers at ${oneLine(base_url ?? id)} yet. Once it does: svc provider test ${id}, ` +
        `then svc run "…" --provider ${id}`,
    );
  else if (!lacksKey) note(`To use it: svc run "…" --provider ${id}`);
}

/** Without its key a provider cannot be called yet. */
function noteKey(id: string, { like, key }: Pick<ProviderConfig, 'like' | 'key'>): void {
  const { name, keys_at } = (like === null ? undefined : knownProvider(like)) ?? {};
  if (typeof keys_at === 'string') note(`Keys of ${name} are made at ${keys_at}`);
  const variable = key === null ? null : variableOf(key);
  const isHere = variable !== null && !!process.env[variable];
  note(`To store its key: svc provider key ${id}${isHere ? ` --from-env ${variable}` : ''}`);
}

/** Whether a key is wanted that neither this shell nor svc has. A daemon starts from this shell. */
async function isKeyAbsent(
  id: string,
  { key }: Pick<ProviderConfig, 'key'>,
  paths: Paths,
): Promise<boolean> {
  const variable = key === null ? null : variableOf(key);
  if (variable === null || process.env[variable]) return false;
  const { StoredKeys } = await import('../../config/keys/stored-keys.ts');
  return new StoredKeys(paths.keys).place(id) === null;
}

function variableOf(key: string): string | null {
  const { kind, place } = splitReference(key);
  return kind === 'env' ? place : null;
}
