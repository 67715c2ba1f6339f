import { programVersion } from '../home/version.ts';
import type { Context } from './context.ts';
import { print, printJson } from './print/output.ts';
import { type Installed, installedBy, programFile } from './program-file.ts';

/** Prints how this svc is upgraded. It changes nothing: the program belongs to npm. */
export async function run({ json }: Context): Promise<number> {
  const program = programFile();
  const installed = installedBy(program);
  const command = HOW[installed];
  if (json) printJson({ version: programVersion(), program, installed, command });
  else
    print(
      `svc ${programVersion()} is ${WORDS[installed]}: ${program}\nUpgrade it with: ${command}`,
    );
  return 0;
}

const WORDS = {
  package: 'installed by npm',
  npx: 'in the cache of npx',
  checkout: 'a checkout of its source',
} as const satisfies Record<Installed, string>;
const HOW = {
  package: 'npm install --global <package of the new version> && svc restart',
  npx: 'npx <package of the new version> restart',
  checkout: 'git pull && npm install && npx svc restart',
} as const satisfies Record<Installed, string>;
