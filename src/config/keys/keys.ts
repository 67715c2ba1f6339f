import { splitReference } from '../key-reference.ts';
import { checkKey, readKeyFile, unauthorisedError } from './key-file.ts';
import type { ProviderKeys } from './port.ts';
import type { StoredKeys } from './stored-keys.ts';

/**
 * Reads the keys of a provider. A stored key counts first. The others come from the environment of
 * the daemon, and from files of its user.
 */
export function createKeys(
  env: NodeJS.ProcessEnv,
  stored?: { id: string; keys: StoredKeys },
): ProviderKeys {
  return {
    read: async (config) => {
      const own = (await stored?.keys.read(stored.id, config)) ?? null;
      if (own !== null || config.key === null) return own;
      const { kind, place } = splitReference(config.key);
      if (kind !== 'file') return readVariable(place, env);
      const what = `The key file ${place}`;
      return checkKey(await readKeyFile(place, what), what);
    },
    stored: () => stored?.keys.place(stored.id) ?? null,
    forget: async () => void (await stored?.keys.remove(stored.id)),
  };
}

/** The key of a server that svc starts. */
export function fixedKey(key: string): ProviderKeys {
  return { read: async () => key, stored: () => null, forget: async () => {} };
}

function readVariable(name: string, env: NodeJS.ProcessEnv): string {
  const text = env[name]?.trim() ?? '';
  if (text === '')
    throw unauthorisedError(
      `The variable ${name} for the key is not set in the environment of the daemon.`,
    );
  return checkKey(text, `The variable ${name}`);
}
