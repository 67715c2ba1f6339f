import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const revoked = await askDaemon(paths, 'token.revoke', { name: args[0] ?? '' });
  if (json) printJson(revoked);
  else print(`Revoked the token ${revoked.name}. Its requests have ended.`);
  return 0;
}
