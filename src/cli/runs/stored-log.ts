import { copyFileSync, existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { loadConfig } from '../../config/config.ts';
import { SvcError } from '../../errors.ts';
import { openStoredLog } from '../../fleet/postgres/alone.ts';
import type { Paths } from '../../home/paths.ts';
import { type Limits, limitSpecs } from '../../limits.ts';
import { StoredRuns } from '../../runtime/history/stored-runs.ts';
import { findRun, namesIn } from '../../runtime/runs/find.ts';
import { projectRun } from '../../runtime/runs/record.ts';
import { type Copy, openCopiedLog, withCopy } from '../../store/inspect/copied-log.ts';
import type { EventStore, Project } from '../../store/port.ts';
import type { OpenOptions } from '../../store/sqlite/open.ts';
import { createSqliteStore } from '../../store/sqlite/sqlite.ts';
import { sharedDatabase, withoutDaemon } from '../config/database.ts';
import { limitsOf } from '../config/limits.ts';
import { noLog } from '../connect/not-running.ts';
import { note } from '../print/output.ts';
import type { OpenLog } from './open-log.ts';
import type { RunReads } from './run-reads.ts';

/**
 * The log without its daemon. It is imported on use: it needs much code, which a quick command
 * leaves to the whole program.
 */

/** Opens the runs, calls `use`, and closes them. `says`: whether the user hears where from. */
export async function withStoredRuns<T>(
  paths: Paths,
  use: (runs: RunReads) => Promise<T>,
  says: boolean,
): Promise<T> {
  const { config, database, highWater } = paths;
  const limits = limitsOf(config);
  return withoutDaemon(async () => {
    const store =
      (await sharedLog(paths)) ??
      (await openCopiedStore({ database, highWater, limits, project: projectRun }));
    if (store === null) throw noLog();
    try {
      const runs = new StoredRuns(store, { limits });
      const result = await use({
        get: (id) => runs.get(id),
        list: (query) => runs.list(query),
        search: (query) => runs.search(query),
        usage: (query) => runs.usage(query, loadConfig(config)),
        conversationUsage: (id) => runs.conversationUsage(id),
      });
      if (says) note('The daemon is not running. This is from its log.');
      return result;
    } finally {
      await store.close();
    }
  });
}

/** Opens the log, calls `use`, and closes it. */
export async function withStoredLog<T>(
  paths: Paths,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  return withoutDaemon(async () => {
    const log = (await fromDatabase(paths)) ?? fromFile(paths);
    try {
      return await use(log);
    } finally {
      log.close();
    }
  });
}

type Closed = OpenLog & { close(): void };

/** Null: the log is a file of this machine. */
async function fromDatabase(paths: Paths): Promise<Closed | null> {
  const log = await sharedLog(paths);
  if (log === null) return null;
  return {
    ...log,
    from: 'file',
    findRun: (written) => findRun(namesIn(log), written),
    problems: async () => (await log.verify()).problems,
    close: () => void log.close(),
  };
}

function fromFile({ config, database, highWater }: Paths): Closed {
  const log = openCopiedLog({ database, highWater, limits: limitsOf(config) });
  if (log === null) throw noLog();
  const { runsNamed, newestRun: lastRun } = log;
  return { from: 'file', ...log, findRun: (written) => findRun({ runsNamed, lastRun }, written) };
}

/** Null: the log is a file of this machine. Throws daemon_not_running if there is no log. */
async function sharedLog({ config }: Paths) {
  const database = sharedDatabase(config);
  if (database === null) return null;
  const log = await openStoredLog(database);
  if (log === null) throw noLog();
  return log;
}

interface CopiedStoreOptions {
  database: string;
  highWater: string;
  limits: OpenOptions['limits'] & Pick<Limits, 'inspect_bytes' | 'close_ms'>;
  /** Folds damaged rows, as the daemon does. */
  project: Project;
}

/**
 * Opens a copy of the log of a stopped daemon as a store. It answers as the daemon would.
 * `close` deletes the copy. Null if there is no log. Throws what `open` throws, and
 * daemon_already_running if a process has the log open.
 */
async function openCopiedStore(options: CopiedStoreOptions): Promise<EventStore | null> {
  return withCopy(options, (copy) => openCopy(copy, options));
}

async function openCopy(
  { folder, copy, remove }: Copy,
  { database, highWater, limits, project }: CopiedStoreOptions,
): Promise<EventStore> {
  const mark = join(folder, 'events.high-water');
  const store = createSqliteStore({
    database: copy,
    highWater: mark,
    project,
    limits: { ...limits, reserve_bytes: limitSpecs.reserve_bytes.min },
  });
  try {
    if (existsSync(highWater)) copyFileSync(highWater, mark);
    await store.open();
  } catch (error) {
    remove();
    throw named(error, folder, dirname(database));
  }
  return { ...store, close: () => store.close().finally(remove) };
}

/** The error with the folder of the log instead of that of its copy. */
function named(thrown: unknown, copy: string, original: string): unknown {
  if (!(thrown instanceof SvcError)) return thrown;
  const { code, cause, details } = thrown;
  return new SvcError(code, thrown.message.replaceAll(copy, original), {
    cause,
    hint: thrown.hint.replaceAll(copy, original),
    ...(details === undefined ? {} : { details }),
  });
}
