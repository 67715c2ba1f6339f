import { ownerOf, readRuntimeFile } from '../runtime-file.ts';
import { programVersion } from '../version.ts';
import type { Context } from './context.ts';
import { print, printJson } from './output.ts';

/** Version of the program, and of the daemon that runs: as its runtime file says, so that no connection is needed. */
export async function run({ paths, json }: Context): Promise<number> {
  const version = programVersion();
  const found = readRuntimeFile(paths.runtime);
  const running = found.kind === 'present' && ['ours', 'unproven'].includes(ownerOf(found.file));
  const daemon = running ? found.file.version : null;
  if (json) printJson({ version, daemon_version: daemon, node: process.versions.node, platform: `${process.platform}-${process.arch}` });
  else if (daemon === null || daemon === version) print(`svc ${version}`);
  else print(`svc ${version}\nThe running daemon is ${daemon}. To change it: svc restart`);
  return 0;
}
