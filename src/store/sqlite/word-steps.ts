import type { DamagedRun, FoundRun, SearchQuery } from '../port.ts';
import type { Words } from '../words.ts';

export interface WordStepsOptions {
  words: Words;
  /** False after a failure that ends all writing, and after the close. */
  canWrite(): boolean;
  /** Position of the last durable event. */
  lastSeq(): number;
  /** Does the work in a transaction of the log. */
  write(work: () => void): void;
  /** Null, or the failure that ends all writing. */
  rollBack(): Error | null;
  /** Any failure but a full disk ends all writing. */
  refuse(thrown: unknown): void;
}

/**
 * The steps of the index of words. The thread of the log takes them between its calls.
 *
 * 1. A step that fails for want of space is taken again later. Any other failure ends all writing.
 * 2. A search, a count and the close first take the steps that are due, up to a bound.
 */
export class WordSteps {
  private readonly options: WordStepsOptions;

  constructor(options: WordStepsOptions) {
    this.options = options;
  }

  /** One step behind the log. True if more is due. */
  follow(): boolean {
    const { words, lastSeq, write } = this.options;
    return this.step(() => words.follow(lastSeq(), write));
  }

  /** One step for the runs of an old log without the index. True if there is more to do. */
  build(): boolean {
    return this.step(() => this.options.words.build());
  }

  find(query: SearchQuery): (FoundRun | DamagedRun)[] {
    this.catchUp();
    return this.options.words.find(query);
  }

  /** How many finished runs a search does not find yet. */
  unindexed(): number {
    this.catchUp();
    return this.options.words.unindexed();
  }

  /** True if the index may be damaged. Then it is dropped, and the work can be repeated. */
  drops(thrown: unknown): boolean {
    const { rollBack, words } = this.options;
    return rollBack() === null && words.dropIfDamaged(thrown);
  }

  /** A thread that follows the log leaves few steps. */
  catchUp(): void {
    for (let steps = 0; steps < CATCH_UP_STEPS && this.follow(); steps += 1);
  }

  private step(take: () => boolean): boolean {
    const { canWrite, refuse } = this.options;
    try {
      return canWrite() && take();
    } catch (error) {
      if (!this.drops(error)) refuse(error);
      return false;
    }
  }
}

const CATCH_UP_STEPS = 20;
