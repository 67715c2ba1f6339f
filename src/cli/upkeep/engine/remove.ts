import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { SvcError } from '../../../errors.ts';
import {
  buildsFolder,
  buildsFor,
  installedVersions,
  packageFolder,
} from '../../../home/engine-builds.ts';
import { LLAMA_SERVER, llamaServerFolder } from '../../../home/llama-server.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { unknownBuild } from './install.ts';

/** Removes a build from the home, or all builds of another version. */
export async function run({ args, paths, json }: Context): Promise<number> {
  const name = args[0] ?? '';
  const removed = installedVersions(paths).includes(name)
    ? [buildsFolder(paths, name)]
    : name === LLAMA_SERVER
      ? [llamaServerFolder(paths)].filter(existsSync)
      : partsOf(name, buildsFolder(paths));
  if (removed.length === 0)
    throw new SvcError('invalid_request', `The build ${oneLine(name)} is not installed.`, {
      param: 'build',
      hint: 'See: svc engine list',
    });
  for (const folder of removed) await rm(folder, { recursive: true });
  if (json) printJson({ build: name, removed });
  else print(`Removed ${oneLine(name)}.`);
  note('A model that is in memory keeps it until it is unloaded.');
  return 0;
}

/** The folders of its packages, and of builds that share one of them: they do not work without. */
function partsOf(name: string, builds: string): string[] {
  const build = buildsFor()[name];
  if (build === undefined) throw unknownBuild(name);
  const parts = Object.values(buildsFor())
    .map(({ packages }) => Object.keys(packages))
    .filter((others) => others.some((part) => part in build.packages));
  return [...new Set(parts.flat())]
    .map((part) => packageFolder(builds, part))
    .filter((folder) => existsSync(folder));
}
