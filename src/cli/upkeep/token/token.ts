import type { Context } from '../../terminal/context.ts';
import { print, printJson } from '../../terminal/print/output.ts';
import { readToken } from './read-token.ts';

/** A start keeps the token. */
export async function run({ paths, json }: Context): Promise<number> {
  const token = readToken(paths.token);
  if (json) printJson({ token });
  else print(token);
  return 0;
}
