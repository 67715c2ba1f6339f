import { hasCode } from '../errors.ts';
import { CONFLICT, type RunRow } from './port.ts';
import { type RunLine, toRunLine } from './row.ts';

export interface MenderOptions {
  /** Folds a run from its events. Null if they are damaged or removed. */
  project: ((run_id: string) => Promise<RunRow | null>) | null;
  /** Replaces a damaged row. False if the run has newer events. */
  put(line: RunLine): Promise<boolean>;
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
      if (row === null || !(await put(toRunLine(row)))) return false;
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
