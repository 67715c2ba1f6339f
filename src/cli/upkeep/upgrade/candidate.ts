import { readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../../errors.ts';
import { SYSTEM } from '../../../home/platform.ts';
import { runProgram } from '../../terminal/foreign-program.ts';

/** Another build that runs here, and its description of itself. */
export interface Candidate {
  /** Its folder, which has `bin/svc` and `install.sh`. */
  root: string;
  version: string;
  build: string | null;
  /** The newest format of a log that it reads. */
  log_format: number;
  /** By format, the kinds of events that need it. */
  log_kinds: Readonly<Record<string, readonly string[]>>;
}

/** Asks the program in a folder. Throws upgrade_refused. `script` puts an older one into use. */
export async function describe(
  root: string,
  script = join('<folder of the archive>', 'install.sh'),
): Promise<Candidate> {
  const stdout = await runProgram(join(root, 'bin', 'svc'), ['version', '--json']).catch(
    ({ message }: Error) => {
      throw refusalError(`The program in ${root} does not run here: ${message}.`, OTHER);
    },
  );
  const { platform, ...said } = read<Candidate & { platform: string }>(root, () => stdout);
  const { version } = read<Candidate>(root, () =>
    readFileSync(join(root, 'lib', 'svc', 'package.json'), 'utf8'),
  );
  if (said.version !== version || platform !== SYSTEM)
    throw refusalError(
      `The program says ${said.version} for ${platform}, and its package ${version}.`,
      OTHER,
    );
  if (said.log_format === undefined)
    throw refusalError(
      `svc ${version} is older than this command, and cannot fold a log beside another version.`,
      `A script puts it into use: ${script}`,
    );
  return { ...said, root: realpathSync(root) };
}

/** The description that the program or its package gives of itself. */
function read<T extends object>(root: string, text: () => string): T {
  try {
    const said: unknown = JSON.parse(text());
    if (typeof said === 'object' && said !== null) return said as T;
  } catch {
    // The same as below.
  }
  throw refusalError(`The program in ${root} is not svc: it does not say its version.`, OTHER);
}

/** Its own hint: that of the code is about differences. */
export function refusalError(why: string, hint: string): SvcError {
  return new SvcError('upgrade_refused', why, { hint });
}

const OTHER = `Take the archive of a version for ${SYSTEM}.`;
