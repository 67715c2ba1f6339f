import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { print, printJson } from '../../terminal/print/output.ts';

export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const keep_runs = flags['keep-runs'] === true;
  const revoked = await askDaemon(paths, 'token.revoke', { name: args[0] ?? '', keep_runs });
  if (json) printJson(revoked);
  else print(`Revoked the token ${revoked.name}. ${endedText(revoked.cancelled, keep_runs)}`);
  return 0;
}

/** The requests and runs that ended with a token. */
export function endedText(cancelled: number, keep_runs: boolean): string {
  if (keep_runs) return 'Its requests have ended. Its runs continue.';
  const runs = cancelled === 1 ? '1 run was' : `${cancelled} runs were`;
  return `Its requests have ended, and ${runs} cancelled.`;
}
