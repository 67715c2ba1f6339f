import { SvcError } from '../errors.ts';

/** Longest name of a model; with the endings that are added it stays under what file systems take. */
const LENGTH_MAX = 128;

/** What the user calls the model, checked. Throws invalid_request. */
export function readModelName(name: string): string {
  const bare = name.replace(/\.gguf$/i, '');
  if (
    /^[A-Za-z0-9][\w.-]*$/.test(bare) &&
    bare.length <= LENGTH_MAX &&
    !bare.endsWith('.') &&
    !RESERVED.test(bare)
  )
    return bare;
  throw new SvcError(
    'invalid_request',
    `A model is named by letters, digits, ".", "_" and "-", begins with a letter or a digit, and has at most ${LENGTH_MAX} characters.`,
    {
      param: 'name',
    },
  );
}

/** The name for a file that somebody else named: nothing of it can lead out of the folder. Null when nothing is left of it. */
export function modelNameOf(path: string): string | null {
  const [last = ''] = path.split(/[\\/]/).slice(-1);
  const bare = last
    .replace(/\.gguf$/i, '')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+|[.-]+$/g, '')
    .slice(0, LENGTH_MAX)
    .replace(/\.+$/, '');
  return bare === '' || RESERVED.test(bare) ? null : bare;
}

/** Names that are devices on Windows, with whatever ending. */
const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
