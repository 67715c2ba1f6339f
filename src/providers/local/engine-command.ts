import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Arguments for `fork`. */
export interface EngineCommand {
  execPath?: string;
  execArgv: string[];
}

/**
 * Returns the command that starts the engine process with restricted privileges. On Linux,
 * `setpriv` prevents new privileges, and kills the process when the daemon dies.
 */
export function engineCommand(
  nodeFlags: readonly string[],
  program: string = process.execPath,
): EngineCommand {
  const bounds = [`--max-old-space-size=${HEAP_MB}`, `--max-semi-space-size=${YOUNG_MB}`];
  const flags = [...bounds, ...nodeFlags];
  const setpriv = findSetpriv();
  return setpriv === null
    ? { execArgv: flags }
    : { execPath: setpriv, execArgv: [...RESTRAINTS, '--', program, ...flags] };
}

/** Exit codes of `setpriv` for a program that did not start. */
export const NOT_BEGUN: ReadonlySet<number | null> = new Set([126, 127]);

/** Bound of the JavaScript heap. Weights and contexts are outside it. */
const HEAP_MB = 1024;
/** Bound of each half of its young part. A token needs little of it, and more stays resident. */
const YOUNG_MB = 1;
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
