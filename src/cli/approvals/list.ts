import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { ago } from '../print/format.ts';
import { note, print, printJson } from '../print/output.ts';
import { table } from '../print/table.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const { approvals } = await askDaemon(paths, 'approval.list', {});
  if (json) printJson({ approvals });
  else if (approvals.length === 0) note('No call of a tool waits for you.');
  else
    print(
      table(
        ['ID', 'TOOL', 'WAITS FOR', 'SINCE', 'ARGUMENTS', 'SAYS'],
        approvals.map(({ id, server, tool, state, since, arguments: args, description }) => [
          id,
          oneLine(`${server}/${tool}`),
          state === 'lost' ? 'a decision' : 'an approval',
          ago(since),
          short(oneLine(args)),
          short(oneLine(description ?? '-')),
        ]),
      ),
    );
  return 0;
}

const SHORT = 60;

function short(text: string): string {
  return text.length > SHORT ? `${text.slice(0, SHORT - 1)}…` : text;
}
