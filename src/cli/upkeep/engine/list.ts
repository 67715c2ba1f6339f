import {
  betterBuild,
  buildsFolder,
  buildsFor,
  ENGINE_VERSION,
  installedVersions,
  isInstalled,
} from '../../../home/engine-builds.ts';
import { installedLlamaServer, LLAMA_SERVER } from '../../../home/llama-server.ts';
import type { Context } from '../../terminal/context.ts';
import { bytes } from '../../terminal/print/format.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { table } from '../../terminal/print/table.ts';
import { probeEngine } from '../doctor/engine-check.ts';

/** Shows the builds of this system, and which of them the engine computes on. */
export async function run({ paths, json }: Context): Promise<number> {
  const folder = buildsFolder(paths);
  const { gpu } = await probeEngine(paths).catch(() => ({ gpu: null }));
  const rows = Object.entries(buildsFor()).map(([name, { size, needs, ...build }]) => ({
    build: name,
    version: ENGINE_VERSION,
    state: isInstalled(folder, build) ? 'installed' : 'available',
    size_bytes: size,
    needs,
  }));
  const server = installedLlamaServer(paths);
  const old = installedVersions(paths).filter((version) => version !== ENGINE_VERSION);
  const uses = gpu === null ? null : gpu || 'cpu';
  const better = uses === 'cpu' ? betterBuild(folder) : null;
  if (json)
    printJson({
      uses,
      better: better?.build ?? null,
      builds: rows,
      llama_server: server,
      unused: old,
    });
  else {
    const lines = rows.map((row) => [row.build, row.state, bytes(row.size_bytes), row.needs]);
    print(
      table(
        ['BUILD', 'STATE', 'SIZE', 'NEEDS'],
        [
          ['cpu', 'came with svc', '-', 'nothing'],
          ...lines,
          [LLAMA_SERVER, server === null ? 'available' : 'installed', '-', 'nothing; for images'],
        ],
      ),
    );
    note(
      uses === null ? 'The engine cannot be loaded. See: svc doctor' : `It computes on: ${uses}`,
    );
    if (better !== null)
      note(`This machine has a card of ${better.card}: svc engine install ${better.build}`);
    for (const version of old)
      note(`Builds of version ${version} are not used: svc engine remove ${version}`);
  }
  return 0;
}
