import { readFileSync } from 'node:fs';
import { SvcError } from '../errors.ts';
import type { Context } from './context.ts';
import { print, printJson } from './output.ts';

/** From its file, so that it can be had while no daemon runs; a start keeps the token that is there. */
export async function run({ paths, json }: Context): Promise<number> {
  const token = readToken(paths.token);
  if (json) printJson({ token });
  else print(token);
  return 0;
}

export function readToken(file: string): string {
  try {
    const token = readFileSync(file, 'utf8').trim();
    if (token !== '') return token;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new SvcError('home_unusable', `The token file ${file} cannot be read (${code}).`, { cause: error });
  }
  throw new SvcError('daemon_not_running', 'There is no token yet: the first start of the daemon makes it.');
}
