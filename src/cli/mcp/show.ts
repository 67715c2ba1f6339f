import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { foreignJson, foreignText } from '../terminal/print/foreign.ts';
import { stateText } from '../terminal/print/format.ts';
import { print, printJson } from '../terminal/print/output.ts';
import { fields, table } from '../terminal/print/table.ts';

/** A tool server and its tools. It is started for that. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const server = await askDaemon(paths, 'mcp.show', { name: args[0] }, { timeout_ms: SHOW_MS });
  if (json) return printJson(server);
  print(
    fields([
      ['state', stateText(server.state)],
      ['starts', server.target],
      ['says', server.server ?? '-'],
      ['trusted', server.trusted ? 'yes' : 'no'],
      ['variables', server.env.join(', ') || '-'],
      ['headers', server.headers.join(', ') || '-'],
      ...server.problems.map((problem): [string, string] => ['left out', problem]),
    ]),
  );
  const rows = server.tools.map((tool) => [
    tool.name,
    tool.changed ? 'ask (it or its server changed)' : tool.policy,
    tool.read_only ? 'reads' : tool.destructive ? 'may destroy' : 'writes',
    tool.description ?? '-',
  ]);
  print(`\n${table(['TOOL', 'POLICY', 'SAYS', 'DESCRIPTION'], rows)}`);
  if (flags.full === true)
    for (const tool of server.tools)
      print(
        `\n${tool.name}\n${foreignText(tool.description ?? '')}\n` +
          foreignJson(JSON.stringify(tool.schema)),
      );
  return 0;
}

/** Above the limit for a start. */
const SHOW_MS = 3_700_000;
