import { SvcError } from '../../../errors.ts';
import { platform } from '../../../home/platform.ts';
import { oneLine, spellUnseen } from '../../../logs/plain.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import type { Context } from '../../terminal/context.ts';
import { note, paint, print, printJson, warn } from '../../terminal/print/output.ts';
import { findStatus, type StatusResult, type StatusView } from './find-status.ts';
import { notInForce } from './not-in-force.ts';

export async function run(context: Context): Promise<number> {
  const { paths, flags, json } = context;
  if (flags.at !== undefined) {
    if (flags.why === true || flags.watch === true)
      throw new SvcError('usage', '--at is about then, --why and --watch about now: give one.', {
        hint: 'Of one run: svc runs why <id>',
      });
    const { eventFlag } = await import('../../terminal/parse/flag-values.ts');
    const { printStatusAt } = await import('./status-at.ts');
    return printStatusAt(context, eventFlag(flags, 'at') ?? 1);
  }
  const find = () => findStatus(paths, { why: flags.why === true });
  if (flags.watch === true) {
    const { watchStatus } = await import('./status-watch.ts');
    return watchStatus(find, async (found) => {
      if (json) return print(spellUnseen(JSON.stringify(toJson(found))));
      const { localTime } = await import('../../terminal/print/format.ts');
      print(paint('dim', `---- ${localTime(new Date().toISOString())} ----`));
      await printText(found);
    });
  }
  const found = await find();
  if (json) printJson(toJson(found));
  else await printText(found);
  return found.exit;
}

function toJson({ status, events }: StatusResult): object {
  return events === null ? status : { ...status, events };
}

const ADVICE: Record<string, string> = {
  stopped: 'Start it with: svc start',
  crashed: 'It died without a clean stop. See how: svc doctor. Start it again with: svc start',
  unresponsive:
    'Its process is alive and does not answer. See: svc logs. End it with: svc stop --force',
};

async function printText({ status, events }: StatusResult): Promise<void> {
  const { fields } = await import('../../terminal/print/table.ts');
  const { localTime } = await import('../../terminal/print/format.ts');
  const rows = await describe(status);
  const head = `${paint(colour(status), oneLine(status.state))}${await upText(status)}`;
  print(rows.length === 0 ? head : `${head}\n${fields(rows)}`);
  const line = ({ at, type, data }: NonNullable<StatusResult['events']>[number]) =>
    `${localTime(at)}  ${oneLine(type)}  ${paint('dim', oneLine(JSON.stringify(data)))}`;
  if (events !== null) print(`\n${events.map(line).join('\n')}`);
  const advice = hasLostSocket(status) ? LOST_SOCKET : ADVICE[status.state];
  if (advice !== undefined) note(advice);
  const warnings = [
    ...(status.warning == null ? [] : [status.warning]),
    ...(status.models ?? []).flatMap(({ warning }) => warning ?? []),
    ...notInForce(status),
  ];
  for (const text of warnings) warn(text);
}

const LOST_SOCKET =
  'Its process is alive, and its socket was deleted, so no command can reach it. ' +
  'Start it again with: svc restart';

function hasLostSocket({ state, addresses: { socket } }: StatusView): boolean {
  return (
    state === 'unresponsive' &&
    socket !== null &&
    platform.hasSocketFile &&
    !process.getBuiltinModule('node:fs').existsSync(socket)
  );
}

async function describe(status: StatusView): Promise<[string, string | null][]> {
  if (status.pid === null) return [];
  const { daemonText, duration, endedAgo } = await import('../../terminal/print/format.ts');
  const { workRows } = await import('./status-work.ts');
  const { addresses, runs, last_boot } = status;
  return [
    [
      'state',
      status.since === null || status.state_path === null
        ? status.state_path
        : `${daemonText(status.state_path)} for ${duration(Date.now() - Date.parse(status.since))}`,
    ],
    ['why', status.reason ?? null],
    ['pid', status.state === 'crashed' ? `${status.pid} (gone)` : String(status.pid)],
    ['version', status.version === null ? null : `${status.version}${await otherProgram(status)}`],
    ['http', addresses.http],
    ['grpc', addresses.grpc],
    ['socket', addresses.socket],
    ['runs', runs === null ? null : runsText(runs)],
    ...workRows({
      waiting: status.waiting ?? 0,
      models: status.models ?? [],
      tools: status.tools ?? [],
      failing: status.failing ?? [],
    }),
    ['last boot', last_boot === null ? null : `${last_boot.ending}, ${endedAgo(last_boot)}`],
    ['home', status.home],
  ];
}

/** Says that the daemon does not run this program. The same version may have several builds. */
async function otherProgram({ version, build }: StatusView): Promise<string> {
  const { programVersion } = await import('../../../home/version.ts');
  const { build: own } = await import('../../../home/build.ts');
  if (version !== programVersion())
    return ` (this program is ${programVersion()}; to change it: svc restart)`;
  // Older daemons omit this field.
  return build != null && own !== null && build !== own
    ? ' (another build than this program; to change it: svc restart)'
    : '';
}

export function runsText({ active, queued, finished }: Results['status']['runs']): string {
  return `${active} active, ${queued} queued, ${finished} finished`;
}

/** How long the process is up. An older daemon says only since when it has its state. */
async function upText({ started_at, since }: StatusView): Promise<string> {
  const { ago, duration, localTime } = await import('../../terminal/print/format.ts');
  if (started_at != null)
    return `, up ${duration(Date.now() - Date.parse(started_at))}, since ${localTime(started_at)}`;
  return since === null ? '' : ` since ${localTime(since)}, ${ago(since)}`;
}

/** A daemon that is up and takes no run is not well. */
function colour({ state, reason }: StatusView): Parameters<typeof paint>[0] {
  if (state === 'ready' || state === 'running') return reason == null ? 'green' : 'yellow';
  return state === 'crashed' || state === 'failed' || state === 'unresponsive' ? 'red' : 'yellow';
}
