import { LOG_FORMAT, NEW_KINDS } from '../../machines/events.ts';
import { build } from '../home/build.ts';
import { SYSTEM } from '../home/platform.ts';
import { ownerOf, readRuntimeFile } from '../home/runtime-file.ts';
import { programVersion } from '../home/version.ts';
import { oneLine } from '../logs/plain.ts';
import type { Context } from './terminal/context.ts';
import { print, printJson } from './terminal/print/output.ts';

/** Prints the version of the program and of the running daemon, from its runtime file. */
export async function run(context: Context): Promise<number> {
  const version = programVersion();
  const daemon = daemonVersion(context);
  if (context.json)
    printJson({
      version,
      build,
      daemon_version: daemon,
      node: process.versions.node,
      log_format: LOG_FORMAT,
      log_kinds: NEW_KINDS,
      platform: SYSTEM,
    });
  else if (daemon === null || daemon === version) print(`svc ${version}`);
  else print(`svc ${version}\nThe running daemon is ${oneLine(daemon)}. To update it: svc restart`);
  return 0;
}

/** Null without a daemon or a home. */
function daemonVersion(context: Context): string | null {
  try {
    const found = readRuntimeFile(context.paths.runtime);
    return found.kind === 'present' && ['ours', 'unproven'].includes(ownerOf(found.file))
      ? found.file.version
      : null;
  } catch {
    return null;
  }
}
