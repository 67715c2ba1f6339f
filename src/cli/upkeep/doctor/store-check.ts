import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type DaemonSnapshot, daemonMachine } from '../../../../machines/daemon/chart.ts';
import { init, statePath, step } from '../../../../machines/step.ts';
import { isPostgres } from '../../../config/store/address.ts';
import type { VerifiedRecord } from '../../../contract/contract.ts';
import type { SvcError } from '../../../errors.ts';
import { freeBytesSync } from '../../../home/disk.ts';
import { isWhole, reserveFile } from '../../../kernel/store/files/reserve.ts';
import { inspectStore, type StoreContents } from '../../../kernel/store/inspect/inspect.ts';
import { toEvent } from '../../../kernel/store/port.ts';
import { defaultLimits } from '../../../limits.ts';
import { ago, bytes, daemonText } from '../../terminal/print/format.ts';
import { type Check, type DoctorContext, fail, ok, type RunningDaemon, warn } from './check.ts';
import { checkDatabase } from './database-check.ts';

/** The event log: complete and consistent. Without a daemon, also how the last one ended. */
export async function checkStore({ paths, config, running }: DoctorContext): Promise<Check[]> {
  if (config !== null && isPostgres(config.store))
    return [...(await checkDatabase(config)), ...(running === null ? [] : [inUse(running)])];
  if (running !== null) {
    const { database, highWater } = paths;
    return [inUse(running, database), ...markThere(highWater), ...checkReserve(database, config)];
  }
  const found = await inspectStore({
    database: paths.database,
    highWater: paths.highWater,
    ...(config === null ? {} : { limits: config.limits }),
  });
  switch (found.state) {
    case 'absent':
      return [
        found.high_water === null
          ? ok('event log', 'none yet')
          : fail(
              'event log',
              `It is missing: ${found.high_water.seq} events were acknowledged.`,
              `Restore ${paths.database}, or delete ${paths.highWater} to start with an empty log.`,
            ),
      ];
    case 'in_use':
      return [
        warn('event log', 'Another process has it open, and no daemon answers.', 'See: svc status'),
      ];
    case 'unreadable':
      return [reportReadError(found.error, paths.database)];
    case 'read':
      return [
        checkIntegrity(found, paths),
        ...checkReserve(paths.database, config),
        ...postMortem(found),
      ];
  }
}

/** The result of the daemon's slow check of the log. Older daemons omit it. */
function inUse({ report }: RunningDaemon, database?: string): Check {
  const { seq, lag, size_bytes } = report.log;
  const verified: VerifiedRecord | undefined = report.log.verified;
  if (verified !== undefined && verified.damaged > 0)
    return reportDamage(verified.problems, database ?? 'the tables');
  const checked =
    verified?.at == null
      ? 'the first check of the whole log is in progress'
      : `the whole log was checked ${ago(verified.at)}`;
  return ok('event log', `${seq} events, ${bytes(size_bytes)}, ${lag} waiting; ${checked}`);
}

/** The daemon has the file open, so only its name is gone. */
function markThere(highWater: string): Check[] {
  if (existsSync(highWater)) return [];
  return [
    warn(
      'event log',
      `The high-water mark ${highWater} was removed. A daemon that dies now does not start again.`,
      'Run: svc restart. The daemon writes it again when it stops.',
    ),
  ];
}

function reportDamage(problems: readonly string[], database: string): Check {
  const hint =
    `Copy ${database} away before anything else; then see docs/operations.md, "A damaged ` +
    'event log".';
  return fail('event log', problems.slice(0, PROBLEMS).join(' '), hint);
}

/** A hint that sends its reader to the doctor is replaced: this is the doctor. */
function reportReadError({ code, message, hint }: SvcError, database: string): Check {
  if (code === 'store_corrupt' || code === 'store_tail_lost')
    return reportDamage([message], database);
  return fail('event log', message, hint.includes('svc doctor') ? BROKEN : hint);
}

const BROKEN = 'See docs/operations.md, "When something breaks".';

/** The file that lets the last events fit on a full disk. The daemon restores it after use. */
function checkReserve(database: string, config: DoctorContext['config']): Check[] {
  const { reserve_bytes } = config?.limits ?? defaultLimits;
  const file = reserveFile(database);
  if (isWhole(file, reserve_bytes)) return [];
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    return [
      fail(
        'reserve',
        `The reserve ${file} is not a file: the daemon does not start.`,
        'Move it away.',
      ),
    ];
  const hint =
    `Free ${bytes(2 * reserve_bytes)} on the disk of the event log. ` +
    'The daemon then restores it, at its next start at the latest.';
  const free = freeBytesSync(dirname(file));
  if (free < reserve_bytes)
    return [
      fail(
        'reserve',
        `The disk is full, and the reserve of the event log (${file}) is used up.`,
        hint,
      ),
    ];
  return [
    warn(
      'reserve',
      `The reserve of the event log (${file}) is missing.`,
      free < 2 * reserve_bytes ? hint : 'The daemon creates it when it starts.',
    ),
  ];
}

function checkIntegrity(
  { verify, database_bytes, wal_bytes, high_water }: StoreContents,
  { database, highWater }: DoctorContext['paths'],
): Check {
  const size = bytes(database_bytes + wal_bytes);
  if (verify.ok)
    return ok('event log', `${verify.events} events, ${size}, chain and database are intact`);
  if (high_water === null && verify.problems.length === 1)
    return fail(
      'event log',
      `${verify.problems[0]} Its ${verify.events} events are intact.`,
      `Restore ${highWater} from a backup. If no event is missing, run: ` +
        `echo accept > ${JSON.stringify(highWater)}; svc start`,
    );
  if (!verify.problems.every(isRecord)) return reportDamage(verify.problems, database);
  return fail(
    'event log',
    verify.problems.slice(0, PROBLEMS).join(' '),
    'Run: svc start. It makes these records again from the events, which are intact.',
  );
}

/** About a row that is folded from the events, and not about an event. */
function isRecord(problem: string): boolean {
  return problem.startsWith('The record of the run ');
}

/** How the last daemon ended, and its unfinished runs. */
function postMortem({ last_boot, last_events, runs, unfinished_runs }: StoreContents): Check[] {
  if (last_boot === null) return [];
  const [first, ...rest] = last_boot.events.map(toEvent);
  if (first === undefined) return [];
  const said = rest.reduce(
    (snapshot, event) => step(daemonMachine, snapshot, event).snapshot,
    init(daemonMachine, first).snapshot as DaemonSnapshot,
  );
  const last = withRuns(said, runs.unfinished);
  const seen = last_events.findLast(({ boot_id }) => boot_id === last_boot.boot_id);
  const at = ago(new Date((seen ?? last_boot.events.at(-1))?.at ?? 0).toISOString());
  const queued =
    unfinished_runs.length === 0
      ? 'no unfinished runs'
      : `${runs.unfinished} unfinished run${runs.unfinished === 1 ? '' : 's'}: ` +
        `${unfinished_runs.slice(0, RUNS).join(', ')}`;
  if (last.matches('stopped')) return [ok('last boot', `stopped cleanly ${at}, ${queued}`)];
  if (last.matches('failed'))
    return [
      warn(
        'last boot',
        `It failed ${at}: ${last.context.error?.message} It had ${queued}.`,
        'See: svc logs --level error',
      ),
    ];
  const state = daemonText(statePath(last));
  return [
    warn(
      'last boot',
      `It died in the state ${state}, with ${queued}. Its last event was ${at}.`,
      'Run: svc start. It recovers the unfinished runs.',
    ),
  ];
}

/** The daemon with the runs that it left. Only their own events count most of them. */
function withRuns(daemon: DaemonSnapshot, unfinished: number): DaemonSnapshot {
  const { counts_runs, unsettled } = daemon.context;
  let counted = daemon;
  const event = { type: 'daemon.run_admitted', run_id: '', at: 0 } as const;
  for (let runs = unsettled; counts_runs && runs < unfinished; runs += 1)
    counted = step(daemonMachine, counted, event).snapshot;
  return counted;
}

const PROBLEMS = 3;
const RUNS = 5;
