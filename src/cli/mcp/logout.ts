import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { whenNotRunning } from '../connect/not-running.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';

/** Removes what `svc mcp login` stored. The authorization server does not hear of it. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [name = ''] = args;
  const removed = await forgetLogin(paths, name);
  if (json) printJson({ name, removed });
  else print(oneLine(removed ? `Logged out of ${name}.` : `There is no login at ${name}.`));
  return 0;
}

/** The daemon ends its session. Resolves with whether there was a login. */
export async function forgetLogin(paths: Paths, name: string): Promise<boolean> {
  const { mcpLogin, StoredKeys } = await import('../../providers/keys/stored-keys.ts');
  const removed = await mcpLogin(new StoredKeys(paths.keys), name).remove();
  await stopServer(paths, name);
  return removed;
}

/** So that what is stored now counts. */
export async function stopServer(paths: Paths, name: string): Promise<void> {
  await askDaemon(paths, 'mcp.stop', { name }).catch(whenNotRunning(() => null));
}
