import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { stateText } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { fields, table } from '../terminal/print/table.ts';

/** Without a daemon, lists the configured servers. */
export async function run({ paths, json }: Context): Promise<number> {
  const { servers, problem } = (await askHome(paths, 'mcp.list')).answer;
  if (json) return printJson({ servers, problem });
  const rows = servers.map(({ name, state, tools, trusted, policy, target }) => [
    name,
    stateText(state),
    tools === null ? '-' : String(tools),
    policy ?? (trusted ? 'trusted' : 'ask'),
    target,
  ]);
  print(table(['SERVER', 'STATE', 'TOOLS', 'POLICY', 'STARTS'], rows));
  const reasons = servers.flatMap(({ name, reason }): [string, string][] =>
    reason === null ? [] : [[name, reason]],
  );
  if (reasons.length > 0) print(`\n${fields(reasons)}`);
  if (problem !== null) note(`The servers are as they were: ${problem}`);
  if (servers.length === 0) note('Add one with: svc mcp add <name> -- <command …>');
  return 0;
}
