import { errors } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { defaultLimits } from '../../limits.ts';
import { oneLine } from '../../logs/plain.ts';
import { loadRevocation, type Revocation } from '../../tools/index.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

/** Removes the tokens of `svc mcp login`, and ends them where they came from. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [name = ''] = args;
  const end = await forgetLogin(paths, name);
  if (json) printJson({ name, removed: end !== null, ...viewOf(end) });
  else print(oneLine(end === null ? `There is no login at ${name}.` : `Logged out of ${name}.`));
  if (!json) tell(name, end);
  return isUnended(end) ? errors.mcp_login_failed.exit : 0;
}

/** The daemon ends its session. Resolves with the end of the tokens; null without a login. */
export async function forgetLogin(paths: Paths, name: string): Promise<Revocation | null> {
  const [{ mcpLogin, StoredKeys }, { revoke }] = await Promise.all([
    import('../../config/keys/stored-keys.ts'),
    loadRevocation(),
  ]);
  const store = mcpLogin(new StoredKeys(paths.keys), name);
  // A record that cannot be read is removed too.
  const end = await revoke(store, defaultLimits).catch(
    (): Revocation => ({ failed: 'the stored login cannot be read' }),
  );
  await store.remove();
  await stopServer(paths, name);
  return end;
}

/** Says whether the tokens may still work. */
export function tell(name: string, end: Revocation | null): void {
  if (end === 'not_offered')
    note(oneLine(`Its authorization server ends no tokens. Those of ${name} end by themselves.`));
  if (isUnended(end)) {
    note(oneLine(`The tokens of ${name} may still work: ${end.failed}.`));
    note('End them on the pages of that service.');
  }
}

export function viewOf(end: Revocation | null): { revoked: boolean | null; reason: string | null } {
  const reason = isUnended(end) ? end.failed : null;
  return { revoked: end === null ? null : end === 'revoked', reason };
}

function isUnended(end: Revocation | null): end is { failed: string } {
  return end !== null && typeof end === 'object';
}

/** Stops the server, so that its next start uses the stored login. */
export async function stopServer(paths: Paths, name: string): Promise<void> {
  await askHome(paths, 'mcp.stop', { name });
}
