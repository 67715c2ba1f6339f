import { extname, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** This program: the build, or the sources. */
export function programFile(): string {
  return fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url));
}

/** How a program came to its place. npx may delete what is in its cache. */
export type Installed = 'package' | 'npx' | 'checkout';

export function installedBy(program: string): Installed {
  if (program.includes(`${sep}_npx${sep}`)) return 'npx';
  return program.includes(`${sep}node_modules${sep}`) ? 'package' : 'checkout';
}
