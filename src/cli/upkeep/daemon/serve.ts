import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import { promisify } from 'node:util';
import { parseAddress } from '../../../config/address.ts';
import type { Settings } from '../../../config/settings.ts';
import { LOG_LEVELS } from '../../../contract/words.ts';
import { asSvcError, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { programFile } from '../../../home/program-file.ts';
import { programVersion } from '../../../home/version.ts';
import type { Context, Flags } from '../../terminal/context.ts';
import { installationOf } from '../../terminal/installed.ts';
import { choiceFlag, textFlag } from '../../terminal/parse/flag-values.ts';
import { leaveProcessOne } from './init.ts';

/** Runs the daemon: in the foreground, or in the background for `svc start`. */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const background = flags.background === true;
  leaveProcessOne();
  try {
    if (flags.replace === true) {
      const { stopDaemon } = await import('./stop-daemon.ts');
      await stopDaemon({ paths, force: false, timeout_ms: undefined, keepsStarts: true });
    }
    await mayTakeOver(paths);
    const { serveDaemon } = await import('../../../daemon/index.ts');
    return await serveDaemon({ paths, flags: settingFlags(flags), background, json });
  } catch (thrown) {
    const error = asSvcError(thrown);
    if (background && tellParent({ type: 'failed', error: error.body() })) return error.spec.exit;
    throw thrown;
  }
}

/** The flags that change a setting of the daemon. */
export function settingFlags(flags: Flags): Partial<Settings> {
  const options = {
    http: addressFlag(flags, 'http'),
    grpc: addressFlag(flags, 'grpc'),
    log_level: choiceFlag(flags, 'log-level', LOG_LEVELS),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function addressFlag(flags: Flags, name: string): string | undefined {
  const text = textFlag(flags, name);
  if (text === undefined || parseAddress(text) !== null) return text;
  throw new SvcError(
    'usage',
    `--${name} must be an address such as 127.0.0.1:4780, not ${JSON.stringify(text)}.`,
    { param: name },
  );
}

/** False without a listening parent. */
function tellParent(message: object): boolean {
  if (process.send === undefined || !process.connected) return false;
  return process.send(message, () => process.connected && process.disconnect());
}

/**
 * Waits while `svc upgrade` compares the last records of the previous daemon. If another version
 * is in use after that, it is started, also when the command was killed. Throws upgrade_refused.
 */
async function mayTakeOver({ upgrade }: Paths): Promise<void> {
  if (!existsSync(upgrade)) return;
  const { awaitLock, tryLock } = await import('../../../home/file-lock.ts');
  const free = await tryLock(upgrade);
  free?.();
  if (free !== null) return;
  (await awaitLock(upgrade, COMPARISON_MS))?.();
  const { home } = installationOf(programFile());
  const inUse = home === null ? null : realpathSync(join(home, 'current'));
  if (inUse === null || realpathSync(programFile()).startsWith(inUse + sep)) return;
  await promisify(execFile)(join(inUse, 'bin', 'svc'), ['start', '--json']).catch(() => {});
  throw new SvcError('upgrade_refused', `svc ${programVersion()} is not in use any more.`);
}

/** The comparison has no longer. */
const COMPARISON_MS = 600_000;
