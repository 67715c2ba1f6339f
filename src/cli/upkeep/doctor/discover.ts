import { loadConfig } from '../../../config/config.ts';
import { knownProvider } from '../../../config/providers/known-providers.ts';
import type { Paths } from '../../../home/paths.ts';
import { readRuntimeFile } from '../../../home/runtime-file.ts';
import type { FoundServer } from '../../../providers/discover.ts';
import type { Context } from '../../terminal/context.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { table } from '../../terminal/print/table.ts';

/** Needs no daemon. Contacts only this machine. */
export async function run({ paths, json }: Context): Promise<number> {
  const servers = await findServers(paths);
  if (json) return printJson({ servers });
  if (servers.length === 0) {
    print('No model server of this machine answers at its usual port.');
    note('To use a server elsewhere: svc provider add <name> --base-url <url>');
    return 0;
  }
  print(
    table(
      ['SERVER', 'ADDRESS', 'MODELS', 'PROVIDER'],
      servers.map(({ name, base_url, models, provider }) => [
        name,
        base_url,
        models === null ? 'wants a key' : String(models.length),
        provider ?? '-',
      ]),
    ),
  );
  for (const server of servers.filter(({ provider }) => provider === null)) note(offer(server));
  return 0;
}

/** A server of this machine, and the provider that has its address. */
export interface Discovered extends FoundServer {
  provider: string | null;
}

export async function findServers(paths: Paths): Promise<Discovered[]> {
  const { providers } = loadConfig(paths.config);
  const runtime = readRuntimeFile(paths.runtime);
  const { http = null } = runtime.kind === 'present' ? runtime.file.addresses : {};
  const { discoverServers } = await import('../../../providers/discover.ts');
  const found = await discoverServers(undefined, http === null ? [] : [`http://${http}`]);
  return found.map((server) => ({
    ...server,
    provider:
      Object.entries(providers).find(
        ([, { base_url }]) => base_url !== null && isSame(base_url, server.base_url),
      )?.[0] ?? null,
  }));
}

export function offer(server: FoundServer): string {
  return `To use ${server.name}: ${additionOf(server)}`;
}

/** The command that adds a server. A known one needs its address only if it has another port. */
export function additionOf({ like, base_url }: FoundServer): string {
  const isUsual = like !== null && knownProvider(like)?.base_url === base_url;
  const address = isUsual ? '' : ` --base-url ${base_url}`;
  return `svc provider add ${like ?? '<name>'}${address}`;
}

function isSame(one: string, other: string): boolean {
  const origin = (url: string) => new URL(url).origin.replace('//localhost', '//127.0.0.1');
  return origin(one) === origin(other);
}
