import { editMcpFile, mcpFile } from '../../config/mcp-file.ts';
import { referencesIn } from '../../config/reference.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../terminal/context.ts';
import { print, printJson } from '../terminal/print/output.ts';
import { forgetLogin, tell, viewOf } from './logout.ts';
import { isKeyName } from './set.ts';

/** Removes a tool server from `mcp.json`, its login and its keys. A running one is stopped. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [name = ''] = args;
  let removed = '';
  await editMcpFile(mcpFile(paths.config), (servers) => {
    if (!Object.hasOwn(servers, name))
      throw new SvcError('mcp_unknown', `There is no tool server ${JSON.stringify(name)}.`);
    removed = JSON.stringify(servers[name]);
    return { [name]: null };
  });
  const end = await forgetLogin(paths, name);
  const { mcpKey, StoredKeys } = await import('../../config/keys/stored-keys.ts');
  const keys = new StoredKeys(paths.keys);
  // Only a name that svc stores is one of a file there.
  for (const { kind, name: key } of referencesIn(removed))
    if (kind === 'key' && isKeyName(key)) await keys.remove(mcpKey(name, key).id);
  if (json) printJson({ removed: name, ...(end === null ? {} : viewOf(end)) });
  else print(oneLine(`Removed the tool server ${name}.`));
  if (!json) tell(name, end);
  return 0;
}
