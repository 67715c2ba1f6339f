import { editMcpFile, mcpFile } from '../../config/mcp-file.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';
import { forgetLogin } from './logout.ts';

/** Removes a server of tools from `mcp.json`. A running one is stopped. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [name = ''] = args;
  await editMcpFile(mcpFile(paths.config), (servers) => {
    if (!Object.hasOwn(servers, name))
      throw new SvcError('mcp_unknown', `There is no server of tools ${JSON.stringify(name)}.`);
    return { [name]: null };
  });
  await forgetLogin(paths, name);
  if (json) printJson({ removed: name });
  else print(oneLine(`Removed the server of tools ${name}.`));
  return 0;
}
