import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { ago } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';
import { commandsFor } from './call-text.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const limit = json ? {} : { limit: TABLE_ROWS };
  const { approvals, older = 0 } = await askDaemon(paths, 'approval.list', limit);
  if (json) printJson({ approvals });
  else if (approvals.length === 0) note('No call of a tool waits for you.');
  else {
    print(
      table(
        ['ID', 'TOOL', 'WAITS FOR', 'SINCE', 'ARGUMENTS', 'SAYS', 'SERVER'],
        approvals.map(({ id, server, tool, state, since, target, ...call }) => [
          id,
          oneLine(`${server}/${tool}`),
          waitsFor(state),
          ago(since),
          short(oneLine(call.arguments)),
          short(oneLine(call.description ?? '-')),
          short(oneLine(target ?? '-')),
        ]),
        { spare: ['SERVER', 'SAYS', 'SINCE', 'WAITS FOR'] },
      ),
    );
    if (older > 0) note(`${older} older calls wait too. To see all: svc approvals list --json`);
    for (const state of new Set(approvals.map((call) => call.state)))
      note(`For ${waitsFor(state)}: ${commandsFor({ id: '<id>', state })}`);
  }
  return 0;
}

const TABLE_ROWS = 100;

function waitsFor(state: string): string {
  return state === 'lost' ? 'a decision' : 'an approval';
}

const SHORT = 60;

function short(text: string): string {
  return text.length > SHORT ? `${text.slice(0, SHORT - 1)}…` : text;
}
