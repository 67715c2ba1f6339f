import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * What starts a program with restricted privileges, if there is `setpriv`: no new privileges, and
 * the death of the daemon kills it (Linux).
 */
export function restrained(program: string, args: readonly string[]): [string, ...string[]] {
  const setpriv = findSetpriv();
  return setpriv === null ? [program, ...args] : [setpriv, ...RESTRAINTS, '--', program, ...args];
}

/**
 * What starts a command as the leader of its group of processes, with restricted privileges. The
 * whole group is killed when the daemon is gone, or closes its end of the pipe at descriptor 3.
 */
export function leadingGroup(command: readonly string[]): [string, ...string[]] {
  return restrained('/bin/sh', ['-c', IN_GROUP, 'sh', ...command]);
}

/** The second process waits for the end of the pipe. */
const IN_GROUP = `( trap '' TERM INT HUP; exec >/dev/null 2>&1 </dev/null
  read -r _ <&3; kill -KILL 0 ) &
exec 3<&-
exec "$@"`;

const RESTRAINTS = ['--no-new-privs', '--pdeathsig', 'KILL'];
const PLACES = ['/usr/bin/setpriv', '/bin/setpriv'];
const PROBE_MS = 2000;

let found: string | null | undefined;

/** Tests `setpriv` once: an old or minimal version lacks some options. */
function findSetpriv(): string | null {
  if (found !== undefined) return found;
  const place = process.platform === 'linux' ? PLACES.find((path) => existsSync(path)) : undefined;
  const works = (path: string) =>
    spawnSync(path, [...RESTRAINTS, '--', process.execPath, '--version'], {
      stdio: 'ignore',
      timeout: PROBE_MS,
    }).status === 0;
  found = place !== undefined && works(place) ? place : null;
  return found;
}
