import { SvcError } from '../../errors.ts';
import { CONFLICT, type RunRow } from '../port.ts';
import { type RunLine, toRunLine } from '../row.ts';

export interface MenderOptions {
  /** Folds a run from its events; null where they do not tell the row any more. */
  project: ((run_id: string) => Promise<RunRow | null>) | null;
  /** Puts a row in the place of the damaged one; false when the run has gone on meanwhile. */
  put(line: RunLine): Promise<boolean>;
  onMended: ((run_id: string) => void) | undefined;
}

/**
 * Makes damaged rows of runs again, from their events. The rows are a projection: the events are what was recorded.
 *
 * 1. A row is made only from events that agree with their hashes. Where they do not, the row stays as it is, and is refused.
 * 2. A read is tried again after each row that was made again, and at most READ_TRIES times.
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

  /** Those that cannot be made again stay known as damaged. True when one was made again. */
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
      // The events are damaged too, or the row cannot be put back: the caller says that the record is damaged.
      const { code } = error as { code?: string };
      if (code === 'store_corrupt' || code === 'store_full' || code === CONFLICT) return false;
      throw error;
    }
    onMended?.(run_id);
    return true;
  }
}

/** Rows of one read: more than a page of runs. */
const READ_TRIES = 100;

function damagedRunOf(error: unknown): string | null {
  if (!(error instanceof SvcError) || error.code !== 'store_corrupt') return null;
  const { run_id } = error.details ?? {};
  return typeof run_id === 'string' ? run_id : null;
}
