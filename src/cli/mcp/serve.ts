import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { programVersion } from '../../home/version.ts';
import { limitSpecs } from '../../limits.ts';
import { mcpServer } from '../../transport/mcp/server.ts';
import { type OfferedTool, type Perform, toolsOver } from '../../transport/mcp/tools.ts';
import { ensureDaemon } from '../run/ensure-daemon.ts';
import { withDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';

/** Serves MCP until stdin ends. Each call has its own connection to the daemon. */
export async function run(context: Context): Promise<number> {
  const { paths, flags } = context;
  if (flags['no-start'] !== true) await ensureDaemon(context, { quiet: true });
  const perform: Perform = (name, params, { signal, event }) =>
    withDaemon(paths, async (client) => {
      // Any operation may stream: the others send only a result.
      const stream = client.stream(name as 'run.start', params, { signal });
      for await (const each of stream) await event(each);
      return stream.result;
    });
  const doctor: OfferedTool = {
    name: 'doctor',
    description: 'Checks all that can go wrong with svc on this machine.',
    inputSchema: { type: 'object', properties: {} },
    annotations: { readOnlyHint: true, openWorldHint: false },
    call: async () => {
      const { examine } = await import('../upkeep/doctor/doctor.ts');
      return JSON.stringify(await examine(paths));
    },
  };
  const tools = [...toolsOver(perform), doctor];
  const result_bytes = limitSpecs.mcp_result_bytes.value;
  const ended = new Promise<void>((resolve) => process.stdin.once('close', resolve));
  const { close } = serveStdio(() => mcpServer({ version: programVersion(), tools, result_bytes }));
  await ended;
  await close();
  return 0;
}
