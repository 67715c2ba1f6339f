import { isAbsolute } from 'node:path';

/**
 * Where the key of a provider is. The configuration has this reference, never the key.
 *
 * `env:NAME`: the key is in this variable of the daemon's environment. `file:/path`: the key is the
 * content of this file, which only its owner can read.
 */

export const KEY_REFERENCE = 'a reference such as "env:OPENAI_API_KEY" or "file:/path/to/key"';

/** Undefined for other text, such as the key itself. */
export function readKeyReference(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const { kind, place } = splitReference(value);
  const isValid =
    (kind === 'env' && VARIABLE.test(place)) ||
    (kind === 'file' && isAbsolute(place) && !/\p{Cc}/u.test(place));
  return isValid ? value : undefined;
}

/** The reference to a variable, as configurations of 0.1.0 name it. */
export function variableReference(name: unknown): string | undefined {
  return typeof name === 'string' && VARIABLE.test(name) ? `env:${name}` : undefined;
}

export function splitReference(reference: string): { kind: string; place: string } {
  const at = reference.indexOf(':');
  return at < 0
    ? { kind: '', place: reference }
    : { kind: reference.slice(0, at), place: reference.slice(at + 1) };
}

/** The name that messages have for the place of a key: the variable, or the file. */
export function keyPlace(reference: string): string {
  return splitReference(reference).place;
}

/** The reference for people, with a note if its variable is not set in `env`. */
export function credentialOf(key: string | null, env: NodeJS.ProcessEnv): string {
  if (key === null) return 'none';
  const { kind, place } = splitReference(key);
  return kind === 'env' && !env[place] ? `${key} (not set)` : key;
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
