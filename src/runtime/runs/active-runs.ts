import type { RunKey } from '../../kernel/stream.ts';

/** What a run needs to start. */
export interface Demand {
  provider: string;
  model: string;
  isolated: boolean;
  /** Name of the token that asked it. Null: the home did. */
  asker: string | null;
}

export interface ActiveRun extends Demand {
  run_id: RunKey;
  /** It ends without having started, such as by a cancel. */
  unstarted?: boolean;
  /** Its end is proposed. */
  ended?: boolean;
}

/**
 * The active runs, in the order in which they became active. Each start reads all of them, so it is
 * a list. To list the values of an object takes far longer than to search a list.
 */
export class ActiveRuns {
  private readonly runs: ActiveRun[] = [];

  get size(): number {
    return this.runs.length;
  }

  has(run_id: RunKey): boolean {
    return this.placeOf(run_id) >= 0;
  }

  /** Adds the run, or changes what is known of it. */
  set(run: ActiveRun): void {
    const place = this.placeOf(run.run_id);
    if (place < 0) this.runs.push(run);
    else this.runs[place] = run;
  }

  delete(run_id: RunKey): void {
    const place = this.placeOf(run_id);
    if (place >= 0) this.runs.splice(place, 1);
  }

  keys(): RunKey[] {
    return this.runs.map(({ run_id }) => run_id);
  }

  /** Those that take a place. */
  taken(): ActiveRun[] {
    return this.runs.filter(({ ended }) => ended !== true);
  }

  private placeOf(run_id: RunKey): number {
    return this.runs.findIndex((run) => run.run_id === run_id);
  }
}
