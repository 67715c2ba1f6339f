import { oneLine } from '../../logs/plain.ts';
import { ensureDaemon } from '../run/ensure-daemon.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

/** Starts the server, and lists its tools. Exit 9 if it does not start. */
export async function run(context: Context): Promise<number> {
  const { paths, args, json } = context;
  await ensureDaemon(context);
  if (!json) note(oneLine(`Starting ${args[0]}. With npx or uvx it is downloaded first.`));
  const server = await askDaemon(paths, 'mcp.test', { name: args[0] }, { timeout_ms: TEST_MS });
  if (json) return printJson(server);
  const tools = server.tools.length === 1 ? '1 tool' : `${server.tools.length} tools`;
  print(oneLine(`${server.name} answers: ${tools}, after ${server.took_ms} ms.`));
  for (const { name, changed } of server.tools)
    print(oneLine(`  ${name}${changed ? ' (changed since it was allowed)' : ''}`));
  for (const problem of server.problems) note(oneLine(`Left out: ${problem}.`));
  return 0;
}

/** Above the limit for a start. */
const TEST_MS = 3_700_000;
