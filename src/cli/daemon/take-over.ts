import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { programVersion } from '../../home/version.ts';
import { installationOf } from '../installed.ts';
import { programFile } from '../program-file.ts';

/**
 * Waits while `svc upgrade` compares what the daemon before has recorded last. If another version
 * is in use after that, it is started, also when the command was killed. Throws upgrade_refused.
 */
export async function mayTakeOver({ upgrade }: Paths): Promise<void> {
  if (!existsSync(upgrade)) return;
  const { tryLock } = await import('../../home/file-lock.ts');
  for (let left = LOOKS_MAX; left > 0; left -= 1) {
    const release = await tryLock(upgrade);
    release?.();
    if (release !== null && left === LOOKS_MAX) return;
    if (release !== null) break;
    await delay(LOOK_MS);
  }
  const { home } = installationOf(programFile());
  const inUse = home === null ? null : realpathSync(join(home, 'current'));
  if (inUse === null || realpathSync(programFile()).startsWith(inUse + sep)) return;
  await promisify(execFile)(join(inUse, 'bin', 'svc'), ['start', '--json']).catch(() => {});
  throw new SvcError('upgrade_refused', `svc ${programVersion()} is not in use any more.`);
}

const LOOK_MS = 25;
/** Ten minutes: the comparison has no longer. */
const LOOKS_MAX = 24_000;
