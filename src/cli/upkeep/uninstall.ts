import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { compiledCode } from '../../home/compiled-code.ts';
import type { Paths } from '../../home/paths.ts';
import { programFile } from '../../home/program-file.ts';
import type { Context } from '../terminal/context.ts';
import { installationOf } from '../terminal/installed.ts';
import { bytes } from '../terminal/print/format.ts';
import { note, printJson, say } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';
import { stopDaemon } from './daemon/stop-daemon.ts';
import { serviceManager } from './service/managers.ts';

/**
 * Stops the daemon, removes its service, and lists the files that stay. It deletes no file: models
 * and runs belong to the user.
 */
export async function run({ paths, json }: Context): Promise<number> {
  const manager = serviceManager();
  const { installed } = await manager.status();
  const problem = installed ? await manager.remove() : null;
  const { pid } = await stopDaemon({ paths, force: false, timeout_ms: undefined });
  const left = whatStays(paths);
  if (json) printJson({ service_removed: installed, stopped_pid: pid, left });
  else {
    say(pid === null ? 'svc is not running.' : `svc has stopped (pid ${pid}).`);
    if (installed) say(`Its service of ${manager.name} is removed.`);
    if (problem !== null) note(problem.message);
    if (left.length > 0)
      say(
        `\nThese files stay. Delete them if you no longer need them:\n\n${table(
          ['WHAT', 'SIZE', 'PATH'],
          left.map(({ what, size, path }) => [what, bytes(size), path]),
        )}`,
      );
    say('\nKeys in a keychain stay too; the keychain lists them under svc.');
    say(`Then remove the program: ${installationOf(programFile()).remove}`);
  }
  return 0;
}

interface Left {
  what: string;
  path: string;
  /** In bytes. */
  size: number;
}

/** With SVC_HOME one folder has all of it. The models are listed by themselves, for their size. */
function whatStays(paths: Paths): Left[] {
  const folders = [
    { what: 'configuration', path: dirname(paths.config) },
    { what: 'runs, tokens, stored keys', path: paths.data },
    { what: 'logs', path: paths.logs },
    { what: 'cache', path: paths.cache },
  ];
  const isInside = (path: string) =>
    folders.some((other) => other.path !== path && path.startsWith(`${other.path}${sep}`));
  const outer = folders.filter(({ path }) => !isInside(path));
  const whole = outer.length === 1 ? [{ what: 'everything', path: outer[0]?.path ?? '' }] : outer;
  const models = { what: 'of it, models', path: paths.models };
  const code = { what: 'compiled code, of all homes', path: compiledCode() ?? '' };
  return [...whole, models, code]
    .filter(({ path }) => existsSync(path))
    .map((place) => ({ ...place, size: sizeOf(place.path) }));
}

/** Bytes of a file or a folder. A link counts as itself. */
function sizeOf(path: string): number {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 0;
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}
