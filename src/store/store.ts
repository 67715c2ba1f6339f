import { hasCode } from '../errors.ts';
import type { Ask, Calls, Opened } from './calls.ts';
import { CONFLICT, type EventStore, type Project, type RunRow } from './port.ts';
import { fromEventRow, fromRunData, toRows, toRunLine } from './row.ts';

/** A log in a thread or in memory. After `close` it can be opened again. */
export interface StoredLog {
  open(): Promise<Opened>;
  ask: Ask;
  close(): Promise<void>;
}

export interface StoreOptions {
  /** Folds a run from its events. Without it, damaged rows are not rebuilt. */
  project?: Project | undefined;
  /** A damaged row was rebuilt. */
  onMended?: ((run_id: string) => void) | undefined;
}

/** The port over a log that answers in stored rows. Converts rows, and rebuilds damaged ones. */
export function createStore(log: StoredLog, { project, onMended }: StoreOptions = {}): EventStore {
  const ask: Ask = (method, ...args) => log.ask(method, ...args);
  const readStream: EventStore['readStream'] = async (...args) =>
    (await ask('readStream', ...args)).map(fromEventRow);
  const mender = new RowMender({
    project: project === undefined ? null : (run_id) => project({ readStream }, run_id),
    put: (row) => ask('mendRun', toRunLine(row)),
    onMended,
  });
  /** A method whose arguments and result are the same in the log and in the port. */
  const forward =
    <M extends keyof Calls>(method: M) =>
    (...args: Parameters<Calls[M]>) =>
      ask(method, ...args);

  return {
    open: async () => {
      const { report, damaged } = await log.open();
      try {
        await mender.mendAll(damaged);
        return report;
      } catch (error) {
        // The first failure is the one to report.
        await log.close().catch(() => {});
        throw error;
      }
    },
    append: async (commit) => ask('append', toRows(commit)),
    readStream,
    readAll: async (...args) => (await ask('readAll', ...args)).map(fromEventRow),
    lastEvent: async (stream) => orNull(await ask('lastEvent', stream), fromEventRow),
    listRuns: async (query) => {
      const page = await ask('listRuns', query);
      const damaged = page.flatMap((line) => (typeof line === 'string' ? [] : [line.run_id]));
      const lines = (await mender.mendAll(damaged)) ? await ask('listRuns', query) : page;
      return lines.map((line) => (typeof line === 'string' ? fromRunData(line) : line));
    },
    getRun: async (run_id) => toRun(await mender.read(() => ask('getRun', run_id))),
    getRunByKey: async (key) => toRun(await mender.read(() => ask('getRunByKey', key))),
    readRecord: (run_id) => mender.read(() => ask('readRecord', run_id)),
    runHead: (run_id) => mender.read(() => ask('runHead', run_id)),
    verifyPart: async (now, restart) => {
      const { done, damaged } = await ask('verifyPart', now, restart);
      await mender.mendAll(damaged);
      return { done, report: await ask('verified') };
    },
    reserve: forward('reserve'),
    spendReserve: forward('spendReserve'),
    unfinishedRuns: forward('unfinishedRuns'),
    runsAt: forward('runsAt'),
    searchRuns: forward('searchRuns'),
    unindexedRuns: forward('unindexedRuns'),
    runsNamed: forward('runsNamed'),
    lastRun: forward('lastRun'),
    askerOf: forward('askerOf'),
    startedStreams: forward('startedStreams'),
    countRuns: forward('countRuns'),
    usage: forward('usage'),
    prune: forward('prune'),
    removeRun: forward('removeRun'),
    verify: forward('verify'),
    verified: forward('verified'),
    close: () => log.close(),
  };
}

function toRun(data: string | null): RunRow | null {
  return orNull(data, fromRunData);
}

function orNull<A, B>(value: A | null, convert: (value: A) => B): B | null {
  return value === null ? null : convert(value);
}

export interface MenderOptions {
  /** Folds a run from its events. Null if they are damaged or removed. */
  project: ((run_id: string) => Promise<RunRow | null>) | null;
  /** Replaces a damaged row. False if the run has newer events. */
  put(row: RunRow): Promise<boolean>;
  onMended: ((run_id: string) => void) | undefined;
}

/**
 * Rebuilds damaged rows of runs from their events. The rows are a projection; the events are the
 * record.
 *
 * 1. A row is rebuilt only from events that match their hashes. Otherwise it stays, and reads
 *    refuse it.
 * 2. A read is repeated after each rebuilt row, at most READ_TRIES times.
 */
export class RowMender {
  private readonly options: MenderOptions;

  constructor(options: MenderOptions) {
    this.options = options;
  }

  async read<T>(attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await attempt();
      } catch (error) {
        const run_id = damagedRunOf(error);
        if (run_id === null || tries >= READ_TRIES || !(await this.mend(run_id))) throw error;
      }
    }
  }

  /** True if it rebuilt a row. Rows that it cannot rebuild stay marked as damaged. */
  async mendAll(run_ids: readonly string[]): Promise<boolean> {
    let mended = false;
    for (const run_id of run_ids) mended = (await this.mend(run_id)) || mended;
    return mended;
  }

  private async mend(run_id: string): Promise<boolean> {
    const { project, put, onMended } = this.options;
    try {
      const row = project === null ? null : await project(run_id);
      if (row === null || !(await put(row))) return false;
    } catch (error) {
      // The events are damaged too, or the write failed: the caller reports a damaged record.
      const { code } = error as { code?: string };
      if (code === 'store_corrupt' || code === 'store_full' || code === CONFLICT) return false;
      throw error;
    }
    onMended?.(run_id);
    return true;
  }
}

/** More than the runs of one page. */
const READ_TRIES = 100;

function damagedRunOf(error: unknown): string | null {
  if (!hasCode(error, 'store_corrupt')) return null;
  const { run_id } = error.details ?? {};
  return typeof run_id === 'string' ? run_id : null;
}
