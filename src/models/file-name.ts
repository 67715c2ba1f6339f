import { SvcError } from '../errors.ts';
import { withoutPart } from './gguf/parts.ts';

/** Longest name of a model. With its extensions it fits all file systems. */
const LENGTH_MAX = 128;

/** Checks a name from the user. Throws invalid_request. */
export function readModelName(name: string): string {
  const bare = name.replace(/\.gguf$/i, '');
  if (HIDDEN.test(bare))
    throw new SvcError(
      'invalid_request',
      `A file with the name ${bare} would be in no list: the name is that of the built-in ` +
        'model, or of a part of a model.',
      { param: 'name', hint: 'Choose another name.' },
    );
  if (
    /^[A-Za-z0-9][\w.-]*$/.test(bare) &&
    bare.length <= LENGTH_MAX &&
    !bare.endsWith('.') &&
    !RESERVED.test(bare)
  )
    return bare;
  throw new SvcError(
    'invalid_request',
    'The name of a model has letters, digits, ".", "_" and "-", begins with a letter or a ' +
      `digit, and has at most ${LENGTH_MAX} characters.`,
    { param: 'name' },
  );
}

/** Makes a safe name from a path of the other side. Null: no safe character is left. */
export function modelNameOf(path: string): string | null {
  const [last = ''] = withoutPart(path).split(/[\\/]/).slice(-1);
  const bare = last
    .replace(/\.gguf$/i, '')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+|[.-]+$/g, '')
    .slice(0, LENGTH_MAX)
    .replace(/\.+$/, '');
  return bare === '' || RESERVED.test(bare) || HIDDEN.test(bare) ? null : bare;
}

/** The built-in model goes before its name, and a part has the name of its model. */
const HIDDEN = /^svc-mini$|-\d{5}-of-\d{5}$/i;
/** Device names on Windows, with any extension. */
const RESERVED = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
