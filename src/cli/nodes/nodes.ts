import type { NodeRecord } from '../../contract/contract.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { duration } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const found = await askDaemon(paths, 'node.list', {});
  if (json) return printJson(found);
  if (found.nodes.length === 0) note('This daemon is not part of a fleet.');
  else
    print(
      table(
        ['NODE', 'STATE', 'SINCE', 'RUNS', 'PLACES', 'VERSION', 'HOST', 'LEASE', 'CLOCK'],
        found.nodes.map((node) => [
          oneLine(node.id),
          node.state,
          node.since,
          String(node.runs),
          String(node.capacity),
          oneLine(node.version),
          oneLine(node.host),
          leaseOf(node),
          clockOf(node),
        ]),
        { spare: ['VERSION', 'HOST', 'SINCE', 'PLACES'] },
      ),
    );
  for (const node of found.nodes)
    if (!node.takes_runs && node.lease_until !== null)
      note(
        `${oneLine(node.id)} takes no runs: its clock is too far from that of the database. ` +
          'Let both follow a time server.',
      );
  return 0;
}

function clockOf({ clock_ms }: NodeRecord): string {
  if (clock_ms === null) return '-';
  if (Math.abs(clock_ms) < 1000) return 'right';
  return `${clock_ms > 0 ? '+' : '-'}${duration(Math.abs(clock_ms))}`;
}

function leaseOf({ lease_until }: NodeRecord): string {
  if (lease_until === null) return '-';
  return duration(Math.max(0, Date.parse(lease_until) - Date.now()));
}
