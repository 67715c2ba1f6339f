import { editMcpFile, mcpFile } from '../../config/mcp-file.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { checkServer, tellDaemon, withFlags } from './server-flags.ts';

/** Writes a tool server into `mcp.json`, with or without a daemon. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name = '', ...command] = args;
  const server = withFlags({}, command, flags);
  checkServer(name, server);
  await editMcpFile(mcpFile(paths.config), (servers) => {
    if (Object.hasOwn(servers, name))
      throw new SvcError('mcp_exists', `A tool server ${name} is configured already.`, {
        param: 'name',
      });
    return { [name]: server };
  });
  await tellDaemon(paths);
  if (json) printJson({ name });
  else {
    print(oneLine(`Added ${name}.`));
    note(`It starts on first use. To try it: svc mcp test ${name}`);
  }
  return 0;
}
