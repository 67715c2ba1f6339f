import { shownTarget } from '../../../../machines/failover.ts';
import { oneLine } from '../../../logs/plain.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { daemonText, localTime, shortenLine, stateText } from '../../terminal/print/format.ts';
import { paint, print, printJson } from '../../terminal/print/output.ts';
import { fields, table } from '../../terminal/print/table.ts';

/** The state of the daemon after an event. */
export async function printStatusAt({ paths, json }: Context, at: number): Promise<number> {
  const snapshot = await askDaemon(paths, 'state', { at });
  if (json) return printJson(snapshot);
  // A daemon that runs an older version has only the one.
  const { status, runs, queue, providers, engine, engines = [] } = snapshot;
  const head = fields([
    ['state', `${daemonText(status.state_path)} since ${localTime(status.since)}`],
    ['event', `${snapshot.seq} of ${snapshot.first_seq} to ${snapshot.last_seq}`],
    ['boot', `${snapshot.boot_id}, pid ${status.pid}, version ${status.version}`],
    ['runs', `${status.runs.active} active, ${queue.length} queued of ${queue.capacity}`],
    ...(engines.length === 0 ? [engine] : engines).map(
      ({ state_path, model }): [string, string] => [
        'engine',
        `${stateText(state_path)}${model === null ? '' : `, ${model}`}`,
      ],
    ),
    ...providers.map((provider): [string, string] => [
      `provider ${provider.id}`,
      `${provider.state}${provider.reason === null ? '' : `: ${provider.reason}`}`,
    ]),
  ]);
  const rows = runs.map((run) => [
    run.id,
    run.state,
    shownTarget(run),
    shortenLine(run.prompt, PROMPT_WIDTH),
  ]);
  print(`${paint('bold', oneLine(status.state))} at ${localTime(snapshot.at)}\n${head}`);
  if (rows.length > 0) print(`\n${table(['RUN', 'STATE', 'MODEL', 'PROMPT'], rows)}`);
  return 0;
}

const PROMPT_WIDTH = 40;
