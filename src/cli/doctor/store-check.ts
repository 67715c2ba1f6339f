import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type DaemonSnapshot, daemonMachine } from '../../../machines/daemon.ts';
import { init, statePath, step } from '../../../machines/step.ts';
import { freeBytesSync } from '../../home/disk.ts';
import { defaultLimits } from '../../limits.ts';
import type { VerifiedRecord } from '../../runtime/contract.ts';
import { isWhole, reserveFile } from '../../store/files/reserve.ts';
import { inspectStore, type StoreContents } from '../../store/inspect/inspect.ts';
import { toFact } from '../../store/port.ts';
import { ago, bytes } from '../print/format.ts';
import { type Alive, type Check, fail, ok, type Patient, warn } from './check.ts';

/** The event log: whole and in agreement with itself, and, when the daemon is dead, what it tells of its end. */
export async function checkStore({ paths, config, alive }: Patient): Promise<Check[]> {
  if (alive !== null) {
    return [inUse(alive, paths.database), ...reserve(paths.database, config)];
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
              `It is gone: ${found.high_water.seq} events were acknowledged.`,
              `Put ${paths.database} back, or delete ${paths.highWater} to begin anew.`,
            ),
      ];
    case 'in_use':
      return [
        warn('event log', 'Another process has it open, and no daemon answers.', 'See: svc status'),
      ];
    case 'unreadable':
      return [fail('event log', found.error.message, found.error.hint)];
    case 'read':
      return [
        integrity(found, paths.database),
        ...reserve(paths.database, config),
        ...postMortem(found),
      ];
  }
}

/** What the daemon's slow check of the whole log has found. A daemon of an older version has none. */
function inUse({ report }: Alive, database: string): Check {
  const { seq, lag, size_bytes } = report.log;
  const verified: VerifiedRecord | undefined = report.log.verified;
  if (verified !== undefined && verified.damaged > 0) return damaged(verified.problems, database);
  const checked =
    verified?.at == null
      ? 'the first check of the whole is under way'
      : `the whole was checked ${ago(verified.at)}`;
  return ok('event log', `${seq} events, ${bytes(size_bytes)}, ${lag} waiting; ${checked}`);
}

function damaged(problems: readonly string[], database: string): Check {
  const hint = `Copy ${database} away before anything else; then see docs/operations.md, "A damaged event log".`;
  return fail('event log', problems.slice(0, PROBLEMS).join(' '), hint);
}

/** What is held so that a full disk does not end everything; once it was used, the daemon puts it back where there is space. */
function reserve(database: string, config: Patient['config']): Check[] {
  const { reserve_bytes } = config?.limits ?? defaultLimits;
  const file = reserveFile(database);
  if (isWhole(file, reserve_bytes)) return [];
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    return [
      fail(
        'reserve',
        `${file}, the place of the reserve, is not a file: the daemon does not start.`,
        'Move it away.',
      ),
    ];
  const hint = `Free ${bytes(2 * reserve_bytes)} where the event log is: it is then put back by itself, at the latest when the daemon starts.`;
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
      `The reserve of the event log (${file}) is not there.`,
      free < 2 * reserve_bytes ? hint : 'It is made when the daemon starts.',
    ),
  ];
}

function integrity({ verify, database_bytes, wal_bytes }: StoreContents, database: string): Check {
  const size = bytes(database_bytes + wal_bytes);
  if (verify.ok)
    return ok('event log', `${verify.events} events, ${size}, chain and database check out`);
  return damaged(verify.problems, database);
}

/** The last state of a daemon that recorded no end, and the runs that it had. */
function postMortem({ last_boot, runs, unfinished_runs }: StoreContents): Check[] {
  if (last_boot === null) return [];
  const [first, ...rest] = last_boot.events.map(toFact);
  if (first === undefined) return [];
  const last = rest.reduce(
    (snapshot, fact) => step(daemonMachine, snapshot, fact).snapshot,
    init(daemonMachine, first).snapshot as DaemonSnapshot,
  );
  const at = ago(new Date(last_boot.events.at(-1)?.at ?? 0).toISOString());
  const queued =
    unfinished_runs.length === 0
      ? 'no unfinished runs'
      : `${runs.unfinished} unfinished run${runs.unfinished === 1 ? '' : 's'}: ${unfinished_runs.slice(0, RUNS).join(', ')}`;
  if (last.matches('stopped')) return [ok('last boot', `stopped cleanly ${at}, ${queued}`)];
  if (last.matches('failed'))
    return [
      warn(
        'last boot',
        `It failed ${at}: ${last.context.error?.message} It had ${queued}.`,
        'See: svc logs --level error',
      ),
    ];
  return [
    warn(
      'last boot',
      `It died ${at} in the state ${statePath(last)}, with ${queued}.`,
      'Run: svc start. It settles what was left.',
    ),
  ];
}

const PROBLEMS = 3;
const RUNS = 5;
