import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** How the engine process is begun: what `fork` is given. */
export interface EngineCommand {
  execPath?: string;
  execArgv: string[];
}

/**
 * The command that begins the engine process with less than the daemon has. Where util-linux is there, `setpriv` sees to it that neither the process
 * nor what it starts gains privileges, and that it dies with the daemon even while it computes without end.
 */
export function engineCommand(
  node_flags: readonly string[],
  program: string = process.execPath,
): EngineCommand {
  const flags = [`--max-old-space-size=${HEAP_MB}`, ...node_flags];
  const setpriv = findSetpriv();
  return setpriv === null
    ? { execArgv: flags }
    : { execPath: setpriv, execArgv: [...RESTRAINTS, '--', program, ...flags] };
}

/** Exit codes with which `setpriv` says that the program behind it could not be begun. */
export const NOT_BEGUN: ReadonlySet<number | null> = new Set([126, 127]);

/** For the script part of the process; weights and contexts are not in this heap. */
const HEAP_MB = 1024;
const RESTRAINTS = ['--no-new-privs', '--pdeathsig', 'KILL'];
const PLACES = ['/usr/bin/setpriv', '/bin/setpriv'];
const PROBE_MS = 2000;

let found: string | null | undefined;

/** Tried once: an old or a small `setpriv` does not know all that is asked of it. */
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
