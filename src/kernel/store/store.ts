import { hasCode } from '../../errors.ts';
import {
  CONFLICT,
  type Commit,
  type EventStore,
  type LogReads,
  type OpenReport,
  type Project,
  READS,
  type RunRow,
  type StoredEvent,
  toReads,
} from './port.ts';
import type { RecountPart } from './recount.ts';
import {
  type CommitRows,
  type EventRow,
  fromEventRow,
  fromRunData,
  type RunLine,
  toRows,
  toRunLine,
} from './row.ts';
import type { RunUsage } from './usage.ts';

/**
 * The calls of a log: the methods of the port, on stored rows.
 *
 * Data stays the JSON text that is stored, so a thread can pass it on without parsing it. The types
 * follow from the port: a new method is declared there and implemented by each log.
 */
export type Calls = { [M in PlainCall]: OnRows<EventStore[M]> } & {
  /** Opens the log. `damaged`: runs whose rows a quick check found damaged. */
  open(): OpenStore;
  verifyPart(now: number, restart: boolean): { done: boolean; damaged: string[] };
  /** Replaces a damaged row. False if the run has newer events than `line`. */
  mendRun(line: RunLine): boolean;
  /** Counts runs again whose sums are lost: see `recount.ts`. Null: all are counted. */
  recount(usages: readonly RunUsage[], after: number): RecountPart | null;
};

export interface OpenStore {
  report: OpenReport;
  damaged: string[];
}

/** The one way to ask a log, wherever it is. */
export type Ask = <M extends keyof Calls>(
  method: M,
  ...args: Parameters<Calls[M]>
) => Promise<Awaited<ReturnType<Calls[M]>>>;

/** Calls that differ from the port only in the form of their data. */
type PlainCall = Exclude<keyof EventStore, 'open' | 'verifyPart'>;

type OnRows<F> = F extends (...args: infer A) => Promise<infer R>
  ? (...args: { [I in keyof A]: Stored<A[I]> }) => Stored<R> | Promise<Stored<R>>
  : never;

/** The form in which a value is stored. */
type Stored<T> = T extends Commit
  ? CommitRows
  : T extends StoredEvent
    ? EventRow
    : T extends RunRow
      ? string
      : T extends (infer I)[]
        ? Stored<I>[]
        : T;

/** A log in a thread or in memory. After `close` it can be opened again. */
export interface StoredLog {
  open(): Promise<OpenStore>;
  ask: Ask;
  close(): Promise<void>;
  /** Whether it finds the messages of a run in its first event. */
  readonly findsRequests?: boolean;
  /** How often it was written again, since a page was damaged. Absent: never. */
  readonly rewritten?: number;
}

export interface StoreOptions {
  /** Folds a run from its events. Without it, damaged rows are not rebuilt. */
  project?: Project | undefined;
  /** A damaged row was rebuilt. */
  onMended?: ((run_id: string) => void) | undefined;
  /** An index, or a table that follows from the events, was damaged, and was made again. */
  onReindexed?: (() => void) | undefined;
}

/** The port over a log that answers in stored rows. Converts rows, and rebuilds damaged ones. */
export function createStore(log: StoredLog, options: StoreOptions = {}): EventStore {
  // Each commit passes here, and makes one promise.
  const ask = ((method, ...args) => {
    const before = log.rewritten;
    const asked = log.ask(method, ...args);
    return asked.then((answer) =>
      log.rewritten === before ? answer : restored(method, args, answer),
    );
  }) as Ask;
  const restored = async (method: keyof Calls, args: readonly unknown[], answer: unknown) => {
    await restorer.restore();
    if (method === 'usage') await restorer.counted;
    // Its result may lack rows.
    return Object.hasOwn(READS, method) ? log.ask(method, ...(args as [never])) : answer;
  };
  const reads = toReads(async (method, args) =>
    fromStored(READS[method], await ask(method, ...(args as [never, never, never]))),
  );
  const mender = new RowMender(options, reads, (row) => ask('mendRun', toRunLine(row)));
  const restorer = new Restorer(log, mender, options.project, reads);
  const mending = mender.mending(reads);
  return {
    ...mending,
    usage: async (query) => {
      await restorer.counted;
      return mending.usage(query);
    },
    open: async () => {
      const { report, damaged } = await log.open();
      try {
        await mender.mendAll(damaged);
        restorer.count();
        return report;
      } catch (error) {
        // The first failure is the one to report.
        await log.close().catch(() => {});
        throw error;
      }
    },
    append: async (commit) => {
      const isBrief = log.findsRequests === true && commit.runs.some(({ repeats }) => repeats);
      const appended = ask('append', toRows(commit, !isBrief));
      if (!isBrief) return appended;
      return appended.catch((error: { code?: unknown }) => {
        // The first event may be damaged, or of an older schema.
        if (error.code !== CONFLICT) throw error;
        return ask('append', toRows(commit));
      });
    },
    verifyPart: async (now, restart) => {
      const { done, damaged } = await ask('verifyPart', now, restart);
      await mender.mendAll(damaged);
      return { done, report: await ask('verified') };
    },
    reserve: () => ask('reserve'),
    spendReserve: () => ask('spendReserve'),
    unindexedRuns: () => ask('unindexedRuns'),
    prune: (query) => ask('prune', query),
    removeRun: (run_id) => ask('removeRun', run_id),
    verify: () => ask('verify'),
    verified: () => ask('verified'),
    close: () => log.close(),
  };
}

/** Makes again what a log has lost that was written again, from its events. */
class Restorer {
  /** Resolves when the usage is whole. */
  counted: Promise<void> = Promise.resolve();
  private restored: { of: number | undefined; done: Promise<void> };
  private readonly log: StoredLog;
  private readonly mender: RowMender;
  private readonly project: Project | undefined;
  private readonly reads: LogReads;

  constructor(log: StoredLog, mender: RowMender, project: Project | undefined, reads: LogReads) {
    this.log = log;
    this.mender = mender;
    this.project = project;
    this.reads = reads;
    this.restored = { of: log.rewritten, done: Promise.resolve() };
  }

  /**
   * Resolves when the rows of the newest runs are there. The slow check makes the others. All calls
   * that one rewrite interrupted share its restore.
   */
  restore(): Promise<void> {
    const { rewritten } = this.log;
    if (this.restored.of !== rewritten)
      this.restored = { of: rewritten, done: this.restoreNewest() };
    return this.restored.done;
  }

  private async restoreNewest(): Promise<void> {
    const { damaged } = await this.log.ask('open');
    await this.mender.mendAll(damaged);
    this.count();
  }

  /** Counts usage again in the background. A failure is for the next start. */
  count(): void {
    this.counted = this.counted.then(() => this.countAll()).catch(() => {});
  }

  private async countAll(): Promise<void> {
    for (let part = await this.log.ask('recount', [], 0); part !== null; ) {
      const rows: (RunRow | null | undefined)[] = [];
      for (const run_id of part.run_ids)
        rows.push(await this.project?.(this.reads, run_id).catch(() => null));
      const { after, to_seq } = part;
      const usages = rows.flatMap((row) => (row?.usage && row.seq <= to_seq ? row.usage : []));
      part = await this.log.ask('recount', usages, after);
    }
  }
}

/** An answer with its data parsed. */
function fromStored(form: (typeof READS)[keyof LogReads], answer: unknown): unknown {
  if (answer === null) return null;
  if (form === 'event') return fromEventRow(answer as EventRow);
  if (form === 'events') return (answer as EventRow[]).map(fromEventRow);
  if (form === 'run') return fromRunData(answer as string);
  if (form !== 'runs') return answer;
  return (answer as unknown[]).map((line) => (typeof line === 'string' ? fromRunData(line) : line));
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
  private readonly options: StoreOptions;
  private readonly log: Pick<LogReads, 'readStream'>;
  private readonly put: (row: RunRow) => Promise<boolean>;

  /** `put` replaces a damaged row. False if the run has newer events. */
  constructor(
    options: StoreOptions,
    log: Pick<LogReads, 'readStream'>,
    put: (row: RunRow) => Promise<boolean>,
  ) {
    this.options = options;
    this.log = log;
    this.put = put;
  }

  /** The reads, with those of rows repeated after damage. */
  mending(reads: LogReads): LogReads {
    return {
      ...reads,
      getRun: (...args) => this.read(() => reads.getRun(...args)),
      getRunByKey: (key) => this.read(() => reads.getRunByKey(key)),
      readRecord: (run_id) => this.read(() => reads.readRecord(run_id)),
      runHead: (run_id) => this.read(() => reads.runHead(run_id)),
      listRuns: async (query) => {
        const page = await reads.listRuns(query);
        const damaged = page.flatMap((row) => ('damage' in row ? row.run_id : []));
        return (await this.mendAll(damaged)) ? reads.listRuns(query) : page;
      },
    };
  }

  private async read<T>(attempt: () => Promise<T>): Promise<T> {
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
    const { project, onMended } = this.options;
    try {
      const row = (await project?.(this.log, run_id)) ?? null;
      if (row === null || !(await this.put(row))) return false;
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
