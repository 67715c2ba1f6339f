import { existsSync } from 'node:fs';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { print, printJson } from '../../terminal/print/output.ts';

/** Prints where the configuration file is, or would be. */
export async function run({ paths, json }: Context): Promise<number> {
  if (json) printJson({ file: paths.config, exists: existsSync(paths.config) });
  else print(oneLine(paths.config));
  return 0;
}
