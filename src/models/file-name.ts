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

/** Files for images, importance matrices and adapters are GGUF files without a text model. */
export function isCompanion(path: string): boolean {
  return /(^|[-._/])(mmproj|imatrix|lora|adapter)([-._/]|$)/i.test(path);
}

/** A file with which llama-server reads images. */
export function isProjector(path: string): boolean {
  return /(^|[-._/])mmproj([-._/]|$)/i.test(path);
}

/** What the name of a file says without its types of numbers. */
export function stemOf(path: string): string {
  const [name = ''] = withoutPart(path).split(/[\\/]/).slice(-1);
  return name
    .toLowerCase()
    .replace(/mmproj|\.gguf$|(^|[-_.])(bf16|f16|f32|i?q\d\w*)/g, '')
    .replace(/[-_.]/g, '');
}

/** The file for images that a download puts beside a model. */
export function projectorName(model: string): string {
  return `${model.replace(/\.gguf$/i, '')}${PROJECTOR_END}.gguf`;
}

/** The model that such a file belongs to. Null: it has another name. */
export function modelOfProjector(name: string): string | null {
  return name.endsWith(PROJECTOR_END) ? name.slice(0, -PROJECTOR_END.length) : null;
}

const PROJECTOR_END = '-mmproj';
