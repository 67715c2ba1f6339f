import { splitReference } from '../../config/key-reference.ts';
import { knownProvider } from '../../config/known-providers.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { note } from '../print/output.ts';
import type { ProviderView } from './configured.ts';

/** Says what the user does next, with the exact commands. */
export async function noteNextStep(
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

/** Without its key a provider cannot be asked yet. */
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
  const { StoredKeys } = await import('../../providers/keys/stored-keys.ts');
  return new StoredKeys(paths.keys).place(id) === null;
}

function variableOf(key: string): string | null {
  const { kind, place } = splitReference(key);
  return kind === 'env' ? place : null;
}
