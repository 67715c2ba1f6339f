import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { platform } from './platform.ts';
import { asWritten, type Spawnable } from './program-words.ts';

/**
 * The command line that starts a program with restricted privileges, if there is `setpriv`: no new
 * privileges, and the death of the daemon kills it (Linux).
 */
export function withRestrictions(program: string, args: readonly string[]): [string, ...string[]] {
  const setpriv = findSetpriv();
  return setpriv === null ? [program, ...args] : [setpriv, ...RESTRAINTS, '--', program, ...args];
}

/**
 * The command line that starts a command as the leader of its process group, with restricted
 * privileges. The whole group is killed when the daemon is gone, or closes its end of the pipe at
 * descriptor 3.
 *
 * On Windows it is not detached. Then Node puts it into a job, which ends with the daemon. What it
 * starts itself may stay.
 */
export function asGroupLeader(
  command: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Spawnable & { options: { detached: boolean; windowsHide: boolean } } {
  const { hasGroups } = platform;
  const { program, args, options } = hasGroups
    ? asWritten(withRestrictions('/bin/sh', ['-c', IN_GROUP, 'sh', ...command]))
    : platform.program(command, env);
  return { program, args, options: { ...options, detached: hasGroups, windowsHide: true } };
}

/** Signals a leader with its group. Without groups, SIGKILL ends its descendants with it. */
export function signalGroup(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (!platform.hasGroups) {
    if (signal === 'SIGKILL') spawnSync('taskkill', ['/PID', String(pid), '/T', '/F'], QUIET);
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}

/** The second process waits for the end of the pipe. */
const IN_GROUP = `( trap '' TERM INT HUP; exec >/dev/null 2>&1 </dev/null
  read -r _ <&3; kill -KILL 0 ) &
exec 3<&-
exec "$@"`;

const RESTRAINTS = ['--no-new-privs', '--pdeathsig', 'KILL'];
const QUIET = { stdio: 'ignore', timeout: 2000, windowsHide: true } as const;

let found: string | null | undefined;

/** Tests `setpriv` once: an old or minimal version lacks some options. */
function findSetpriv(): string | null {
  if (found !== undefined) return found;
  const place = platform.setpriv.find((path) => existsSync(path));
  const works = (path: string) =>
    spawnSync(path, [...RESTRAINTS, '--', process.execPath, '--version'], QUIET).status === 0;
  found = place !== undefined && works(place) ? place : null;
  return found;
}
