import { tmpdir } from 'node:os';
import { readMcpServer } from '../../src/config/mcp-file.ts';
import { defaultLimits } from '../../src/limits.ts';
import type { ToolInfo } from '../../src/ports/tools.ts';
import { fileTools } from '../../src/tools/built-in/files.ts';
import { webTools } from '../../src/tools/built-in/web.ts';
import { McpServers } from '../../src/tools/servers.ts';
import { ToolLister } from '../../src/tools/tool-list.ts';

/**
 * The servers of svc itself, as they are by default: what their tools say of themselves, how their
 * calls are decided, and which may be repeated. No tool works here.
 */

const hosts = ['example.org'];

async function toolsOf(server: 'notes' | 'web'): Promise<ToolInfo[]> {
  const lister = new ToolLister(server, defaultLimits);
  const made =
    server === 'web'
      ? webTools({ hosts, version: '0.0.0', limits: defaultLimits })
      : await fileTools([tmpdir()], [], defaultLimits);
  for (const tool of made) lister.add(tool);
  return [...lister.list.tools];
}

export const toolsOfSvc: Readonly<Record<string, ToolInfo[]>> = {
  notes: await toolsOf('notes'),
  web: await toolsOf('web'),
};

const configured = new Map([
  ['notes', readMcpServer({ type: 'svc:files', folders: [tmpdir()] })],
  ['web', readMcpServer({ type: 'svc:http', hosts })],
]);

/** Decides as the daemon does, without a file. */
export const builtIn: Pick<McpServers, 'policy' | 'mayRepeat'> = Object.assign(
  Object.create(McpServers.prototype),
  { read: () => ({ servers: configured, problems: new Map() }) },
);
