import { withoutPart } from './parts.ts';

/** Files for images, importance matrices and adapters are GGUF files without a text model. */
export function isCompanion(path: string): boolean {
  return /(^|[-._/])(mmproj|imatrix|lora|adapter)([-._/]|$)/i.test(path);
}

/** A file with which llama-server reads images. */
export function isProjector(path: string): boolean {
  return /(^|[-._/])mmproj([-._/]|$)/i.test(path);
}

/** The name of a file without its types of numbers. */
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
