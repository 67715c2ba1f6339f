import { editMcpFile, mcpFile, readMcpFile } from '../../config/mcp-file.ts';
import { SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { listFlag, textFlag } from '../terminal/parse/flag-values.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { addTo, checkServer, tellDaemon, withFlags, without } from './server-flags.ts';

/** Changes a tool server in `mcp.json`, with or without a daemon. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = '', ...command] = args;
  const file = mcpFile(paths.config);
  const key = textFlag(flags, 'key');
  const isSecret = flags['client-secret'] === true;
  if (Object.keys(flags).every((flag) => flag === 'json') && command.length === 0)
    throw new SvcError('usage', 'There is nothing to set.', { hint: 'See: svc mcp set --help' });
  if (isSecret && key !== undefined)
    throw new SvcError('usage', '--key and --client-secret both read stdin. Set one at a time.');
  const known = readMcpFile(file);
  const change = (servers: Readonly<Record<string, unknown>>) => {
    if (!Object.hasOwn(servers, name))
      throw new SvcError('mcp_unknown', `There is no tool server ${JSON.stringify(name)}.`, {
        details: { known: [...known.servers.keys()] },
      });
    const changed = withFlags(asRecord(servers[name]), command, flags);
    const env = key === undefined ? {} : { [key]: `\${key:${key}}` };
    const oauth = isSecret ? { clientSecret: `\${key:${SECRET}}` } : {};
    const server = without({
      ...changed,
      env: addTo(changed.env, env),
      oauth: addTo(changed.oauth, oauth),
    });
    checkServer(name, server);
    return { [name]: server };
  };
  if (key !== undefined || isSecret) {
    // Asks for a key only if the server has a place for it.
    await editMcpFile(file, (servers) => {
      change(servers);
      return {};
    });
    await storeKey(paths.keys, name, key ?? SECRET);
  }
  await editMcpFile(file, change);
  await tellDaemon(paths);
  // The daemon records the description of an allowed tool, so that a change is noticed.
  const allowed = (listFlag(flags, 'tool') ?? []).filter((text) => text.endsWith('=allow'));
  for (const text of allowed) {
    const tool = text.slice(0, -'=allow'.length);
    const { isRunning } = await askHome(paths, 'mcp.allow', { name, tool });
    if (!isRunning) note(`Without the daemon, svc does not notice when ${tool} changes.`);
  }
  if (json) printJson({ name });
  else print(oneLine(`Changed ${name}.`));
  return 0;
}

/** The key of the client's secret. */
const SECRET = 'CLIENT_SECRET';

/** The key goes to its place only, which the daemon reads. */
async function storeKey(folder: string, name: string, key: string): Promise<void> {
  const { readKey } = await import('../provider/key.ts');
  const { mcpKey, StoredKeys } = await import('../../config/keys/stored-keys.ts');
  if (!isKeyName(key))
    throw new SvcError('usage', '--key must be the name of a variable.', { param: 'key' });
  const { id, owner } = mcpKey(name, key);
  await new StoredKeys(folder).store(id, owner, await readKey(`${key} for ${name}`, {}));
}

export function isKeyName(key: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(key);
}
