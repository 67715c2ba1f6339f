import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** This program: the build, or the sources. */
export function programFile(): string {
  return fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url));
}
