import { resolve } from 'node:path';
import {
  editMcpFile,
  isMcpName,
  mcpFile,
  readForeignServers,
  readMcpServer,
} from '../../config/mcp-file.ts';
import { errors } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../context.ts';
import { note, print, printJson } from '../print/output.ts';
import { tellDaemon } from './server-flags.ts';

/**
 * Copies the servers of tools of another program's file into `mcp.json`. What that program allows
 * by itself is not taken over: the field `svc` is left out.
 */
export async function run({ paths, args, json }: Context): Promise<number> {
  const imported: string[] = [];
  const skipped: { name: string; reason: string }[] = [];
  const found = readForeignServers(resolve(args[0] ?? ''));
  await editMcpFile(mcpFile(paths.config), (servers) => {
    const added: Record<string, object> = {};
    for (const { name: written, value } of found) {
      const { svc: _, ...server } = asRecord(value);
      const name = written.trim().replace(/[^A-Za-z0-9_.-]+/g, '-');
      const config = readMcpServer(server);
      const isKnown = Object.hasOwn(servers, name) || Object.hasOwn(added, name);
      if (typeof config === 'string') skipped.push({ name: written, reason: config });
      else if (config.built_in !== null)
        skipped.push({ name: written, reason: 'what svc itself may reach is for you to say' });
      else if (!isMcpName(name)) skipped.push({ name: written, reason: 'its name cannot be used' });
      else if (isKnown)
        skipped.push({ name: written, reason: `there is a server ${name} already` });
      else {
        added[name] = server;
        imported.push(name);
      }
    }
    return added;
  });
  await tellDaemon(paths);
  if (json) printJson({ imported, skipped });
  else {
    for (const name of imported) print(oneLine(`Added ${name}.`));
    for (const { name, reason } of skipped) note(oneLine(`Left out ${name}: ${reason}.`));
    if (found.length === 0) note('The file has no servers of tools.');
  }
  return skipped.length > 0 || found.length === 0 ? errors.config_invalid.exit : 0;
}
