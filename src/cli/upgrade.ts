import { programVersion } from '../home/version.ts';
import type { Context } from './context.ts';
import { installationOf } from './installed.ts';
import { print, printJson } from './print/output.ts';
import { programFile } from './program-file.ts';

/** Prints how this svc is upgraded. It changes nothing. */
export async function run({ json }: Context): Promise<number> {
  const program = programFile();
  const { installed, words, upgrade: command } = installationOf(program);
  if (json) printJson({ version: programVersion(), program, installed, command });
  else print(`svc ${programVersion()} is ${words}: ${program}\nUpgrade it with: ${command}`);
  return 0;
}
