import { setTimeout as delay } from 'node:timers/promises';
import { hasCode, SvcError } from '../errors.ts';
import { tryLock } from '../home/file-lock.ts';
import type { Paths } from '../home/paths.ts';
import { type Owner, ownerOf, type RuntimeFile, readRuntimeFile } from '../home/runtime-file.ts';
import { connect } from '../transport/control/client.ts';

/**
 * Makes this process the owner of the home, until it ends. Everything else of the daemon follows:
 * log, listeners, store, local socket, runtime file.
 *
 * 1. Only the lock says who owns the home. A taken port says nothing about it.
 * 2. An owner that starts or stops is waited for: it soon answers on its socket, or is gone.
 * 3. An owner of before this lock, or whose lock file was removed, is known by its runtime file.
 *
 * Throws daemon_already_running once the owner answers, or after `wait_ms`; home_unusable.
 */
export async function ownHome(paths: Paths, wait_ms: number): Promise<void> {
  for (const deadline = Date.now() + wait_ms; ; ) {
    held ??= await lock(paths.lock);
    const isHeld = held !== null;
    const owner = ownerIn(paths, isHeld ? ['ours'] : ['ours', 'unproven']);
    if (isHeld && owner === null) return;
    if (owner !== null && (await isUp(owner, isHeld)))
      throw new SvcError('daemon_already_running', `A daemon runs already, with pid ${owner.pid}.`);
    if (Date.now() >= deadline)
      throw new SvcError(
        'daemon_already_running',
        `Another process owns the home ${paths.home} and does not answer.`,
      );
    await delay(LOOK_MS);
  }
}

/** For as long as the process lives: a lock that nothing refers to is collected and released. */
let held: (() => void) | null = null;

/** Between two looks at the owner. */
const LOOK_MS = 25;
const ANSWER_MS = 3_000;

async function lock(file: string): Promise<(() => void) | null> {
  try {
    return await tryLock(file);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new SvcError('home_unusable', `The lock ${file} cannot be taken (${code}).`, {
      cause,
      hint: 'Correct the owner and mode of the file and of its folder, and look at its disk.',
    });
  }
}

/** The other process that the runtime file names, if it is one of `kinds`. */
function ownerIn({ runtime }: Paths, kinds: readonly Owner[]): RuntimeFile | null {
  const found = readRuntimeFile(runtime);
  if (found.kind !== 'present' || found.file.pid === process.pid) return null;
  return kinds.includes(ownerOf(found.file)) ? found.file : null;
}

/** Whether it answers and does not stop. `isUnlocked`: it cannot be one that starts. */
async function isUp({ addresses: { socket } }: RuntimeFile, isUnlocked: boolean): Promise<boolean> {
  if (socket === null) return isUnlocked;
  try {
    const client = await connect(socket, { timeout_ms: ANSWER_MS });
    try {
      const { state } = await client.call('status', {}, { timeout_ms: ANSWER_MS });
      return !ENDS.includes(state);
    } finally {
      client.close();
    }
  } catch (error) {
    // A process that is alive and silent is reported by who asks it next.
    return isUnlocked || hasCode(error, 'timed_out');
  }
}

const ENDS = ['stopping', 'stopped', 'failed'];
