import { dirname, join } from 'node:path';
import { SvcError } from '../errors.ts';
import { writeAtomic } from './atomic-write.ts';
import { platform } from './platform.ts';
import { folderOf, isCopied, ownerOf, type RuntimeFile } from './runtime-file.ts';

// Not imported: see paths.ts.
const { readdirSync, readFileSync, rmSync } = process.getBuiltinModule('node:fs');

/**
 * The processes that start a daemon and are not in the runtime file yet: they wait for the home, or
 * read a long log. Each has a file beside the runtime file, so that a stop finds it.
 */
export type Starting = Pick<RuntimeFile, 'pid' | 'process_start'>;

/** The error for a start that was ended by a stop. */
export function startEndedError(): SvcError {
  return new SvcError(
    'daemon_stopping',
    'The start was ended: svc stop, or a signal, came before the daemon was ready.',
  );
}

/** Notes that this process starts. A failure costs only that a stop does not find it. */
export async function noteStart(runtime: string): Promise<void> {
  startsOf(runtime);
  const { pid } = process;
  const note = { pid, process_start: platform.processStart(pid), folder: folderOf(runtime) };
  await writeAtomic(fileOf(runtime, pid), `${JSON.stringify(note)}\n`).catch(() => {});
}

/** The daemon has its runtime file, or has ended. */
export function forgetStart(runtime: string, pid = process.pid): void {
  rmSync(fileOf(runtime, pid), { force: true });
}

/** The processes that start now. Removes files of dead ones. */
export function startsOf(runtime: string): Starting[] {
  const folder = dirname(runtime);
  let names: string[] = [];
  try {
    names = readdirSync(folder).filter((name) => FILE.test(name));
  } catch {
    // There is no home yet.
  }
  return names.flatMap((name) => {
    const found = read(join(folder, name), runtime);
    if (found !== null && ownerOf(found) === 'ours') return found;
    rmSync(join(folder, name), { force: true });
    return [];
  });
}

/** Null: it is damaged, or of another home that this one is a copy of. */
function read(file: string, runtime: string): Starting | null {
  try {
    const { pid, process_start, folder } = JSON.parse(readFileSync(file, 'utf8')) as RuntimeFile;
    const isHere = folder !== undefined && !isCopied({ folder }, runtime);
    return isHere && file === fileOf(runtime, pid) ? { pid, process_start } : null;
  } catch {
    return null;
  }
}

const FILE = /^starting-\d+\.json$/;

function fileOf(runtime: string, pid: number): string {
  return join(dirname(runtime), `starting-${pid}.json`);
}
