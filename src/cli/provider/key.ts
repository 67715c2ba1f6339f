import { loadConfig } from '../../config/config.ts';
import { readKeyFile } from '../../config/keys/key-file.ts';
import type { KeyPlace } from '../../config/keys/port.ts';
import { StoredKeys } from '../../config/keys/stored-keys.ts';
import { SvcError } from '../../errors.ts';
import { KEY_FILE_BYTES_MAX } from '../../limits.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context, Flags } from '../terminal/context.ts';
import { configOf } from '../terminal/offline/configured.ts';
import { choiceFlag, textFlag } from '../terminal/parse/flag-values.ts';
import { readStdin } from '../terminal/parse/read-stdin.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { askSecret } from '../terminal/print/question.ts';

/**
 * Stores the key of a provider, or removes it. The key never is an argument: other users see those.
 * The daemon reads it from its place, so the key does not travel to it.
 */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  const config = configOf(id, loadConfig(paths.config).providers, 'needs no key');
  const keys = new StoredKeys(paths.keys);
  const place =
    flags.remove === true
      ? await remove(keys, id)
      : await keys.store(
          id,
          config,
          await readKey(id, flags),
          choiceFlag(flags, 'store', ['keychain', 'file'] as const) ?? null,
        );
  const { answer: provider } = await askHome(paths, 'provider.key', { id });
  if (json) printJson({ id, stored: place, provider });
  else if (place === null) print(`Removed the stored key of ${oneLine(id)}.`);
  else {
    print(`Stored the key of ${oneLine(id)} in ${WORDS[place]}.`);
    if (place === 'file') note('No keychain answers here. Only your user can read the file.');
    note(`To check it: svc provider test ${id}`);
  }
  return 0;
}

const WORDS: Record<KeyPlace, string> = { keychain: 'the keychain', file: 'a private file' };

async function remove(keys: StoredKeys, id: string): Promise<null> {
  if (await keys.remove(id)) return null;
  throw new SvcError('invalid_request', `There is no stored key of ${id}.`, {
    param: 'id',
    hint: 'See: svc provider list',
  });
}

/** Throws usage. */
export async function readKey(id: string, flags: Flags): Promise<string> {
  const variable = textFlag(flags, 'from-env');
  const file = textFlag(flags, 'from-file');
  if (variable !== undefined && file !== undefined)
    throw new SvcError('usage', '--from-env and --from-file are both set.', { param: 'from-env' });
  const key = await (variable !== undefined
    ? fromVariable(variable)
    : file !== undefined
      ? readKeyFile(file, `The file ${file}`)
      : process.stdin.isTTY
        ? askKey(id)
        : fromStdin());
  const text = key.trim();
  if (text === '') throw new SvcError('usage', 'The key is empty, so nothing is stored.');
  return text;
}

function fromVariable(name: string): string {
  const text = process.env[name];
  if (text !== undefined) return text;
  throw new SvcError('usage', `The variable ${name} is not set in this shell.`, {
    param: 'from-env',
  });
}

async function fromStdin(): Promise<string> {
  const tooLarge = () => new SvcError('usage', `A key has at most ${KEY_FILE_BYTES_MAX} bytes.`);
  return (await readStdin(KEY_FILE_BYTES_MAX, tooLarge)).toString('utf8');
}

async function askKey(id: string): Promise<string> {
  const key = await askSecret(`Key of ${oneLine(id)} (it is not shown): `);
  if (key !== null) return key;
  throw new SvcError('usage', 'No key was typed, so nothing is stored.');
}
